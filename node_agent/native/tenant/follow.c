/* The control thread: it follows the gates of this process's devices, and finds the agent again when that was lost. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/arena/loan.h"
#include "tenant/tenant.h"

#define POLL_NS (100 * ROWEN_MS)
#define ASK_NS ROWEN_SECOND

static struct rowen_stopper stopper;
static _Atomic uint32_t ready; /* futex: the control thread has looked at the gates */

bool rowen_must_stop(const struct rowen_place *place, uint32_t gate) {
    const struct rowen_gate_block *block = &place->link.device->block;
    return place->lost || rowen_closed(gate) ||
           atomic_load((_Atomic uint64_t *)&block->lease_until_ns) <= rowen_now();
}

/* Handles that were taken while the kernel had stopped this process lead to their holes still. */
static bool is_behind(void) {
    ROWEN_FOR_PLACES(place) {
        const struct rowen_arena *arena = atomic_load(&place->link.arena);
        if (arena && rowen_arena_behind(arena)) return true;
    }
    return false;
}

/* While the process stands still. What cannot be led elsewhere must not be used. */
static void quarantine(void) {
    ROWEN_FOR_PLACES(place) {
        struct rowen_arena *arena = atomic_load(&place->link.arena);
        int32_t error = arena ? rowen_arena_quarantine(arena) : 0;
        if (!error) continue;
        dprintf(STDERR_FILENO, "rowen: this process ends: memory that it has lost cannot be set apart: %s\n",
                strerror(-error));
        _exit(ROWEN_EXIT_RETRY);
    }
}

static bool may_run(void) {
    if (is_behind()) return false;
    ROWEN_FOR_PLACES(place)
        if (rowen_must_stop(place, rowen_gate(place->link.device))) return false;
    return true;
}

static struct rowen_member_block *block_of(struct rowen_place *place) { return &place->link.member->block; }

static void acknowledge(struct rowen_place *place, uint32_t gate) {
    struct rowen_member_block *block = block_of(place);
    if (place->lost || !rowen_closed(gate) || atomic_load(&block->ack) == gate) return;
    atomic_store(&block->fault, ROWEN_NO_FAULT);
    atomic_store(&block->ack_ns, rowen_now());
    atomic_store(&block->ack, gate);
}

/* From here on the agent awaits this process at every close. */
static void announce_ready(void) {
    ROWEN_FOR_PLACES(place) atomic_store(&block_of(place)->control_tid, stopper.control_tid);
    if (atomic_exchange(&ready, 1) == 0) rowen_wake(&ready, false);
}

/* The gates as they were read together. */
struct reading {
    _Atomic uint32_t *words[ROWEN_TENANT_DEVICES];
    uint32_t gates[ROWEN_TENANT_DEVICES];
    bool stop;           /* at least one counts as closed */
    uint64_t timeout_ns; /* until a lease may run out, at most POLL_NS */
};

static void read_gates(struct reading *reading) {
    reading->stop = false;
    reading->timeout_ns = POLL_NS;
    for (uint32_t i = 0; i < rowen_place_count; i++) {
        struct rowen_place *place = &rowen_places[i];
        reading->words[i] = rowen_gate_futex(place->link.device);
        reading->gates[i] = rowen_gate(place->link.device);
        if (rowen_must_stop(place, reading->gates[i])) reading->stop = true;
    }
    uint64_t now = rowen_now();
    ROWEN_FOR_PLACES(place) {
        uint64_t lease = atomic_load(&place->link.device->block.lease_until_ns);
        if (!reading->stop && lease > now && lease - now < reading->timeout_ns) reading->timeout_ns = lease - now;
    }
}

static void wait_for_change(const struct reading *reading, uint64_t timeout_ns) {
    rowen_wait_any(reading->words, reading->gates, rowen_place_count, timeout_ns);
}

/* Whether the process is stopped now. */
static bool stop(const struct reading *reading) {
    rowen_grant_end();
    announce_ready();
    enum rowen_stop outcome = rowen_stop_all(&stopper, may_run);
    if (outcome == ROWEN_STOPPED) {
        ROWEN_FOR_PLACES(place) atomic_fetch_add(&place->link.member->parks, 1);
        return true;
    }
    if (outcome == ROWEN_UNSTOPPABLE)
        ROWEN_FOR_PLACES(place) atomic_store(&block_of(place)->fault, ROWEN_HANDLER_REPLACED);
    rowen_go_all();
    if (outcome == ROWEN_ABANDONED) rowen_grant_begin();
    wait_for_change(reading, ROWEN_MS);
    return false;
}

static void go_on(bool stopped) {
    if (stopped) quarantine();
    rowen_grant_begin();
    if (stopped) rowen_go_all();
    announce_ready();
}

/* Off the devices' CPUs, where there are others: there it would wait for the threads that it has to stop. */
static void leave_devices(void) {
    cpu_set_t others;
    CPU_ZERO(&others);
    long count = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < count && cpu < CPU_SETSIZE; cpu++) {
        bool mine = false;
        ROWEN_FOR_PLACES(place)
            mine = mine || (atomic_load(&place->link.device->cpus[cpu / 64]) >> (cpu % 64) & 1);
        if (!mine) CPU_SET(cpu, &others);
    }
    if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
}

/* Asks the agent for new files. The process stands still meanwhile, or does not run yet. */
static void attach_again(struct rowen_place *place) {
    struct rowen_files files;
    char reason[ROWEN_REASON_LENGTH];
    if (rowen_link_ask(&place->link, &files, reason, ASK_NS) != 0) return;
    if (rowen_link_adopt(&place->link, &files) != 0 || rowen_loan_hand_over(&place->link) != 0) return;
    if (rowen_stay_on_devices(stopper.control_tid)) leave_devices();
    place->lost = false;
    atomic_store(&block_of(place)->control_tid, stopper.control_tid);
}

/* Looks for agents that have gone, and for those that have come. */
static void check_links(bool stopped) {
    ROWEN_FOR_PLACES(place) {
        if (!place->lost) place->lost = rowen_link_lost(&place->link);
        else if (stopped) attach_again(place);
    }
}

/* A thread that is parked stays so until all gates count as open. */
static _Noreturn void follow_gates(void) {
    bool stopped = false;
    uint64_t checked_ns = rowen_now();
    for (;;) {
        if (rowen_now() - checked_ns >= POLL_NS) {
            check_links(stopped);
            checked_ns = rowen_now();
        }
        struct reading reading;
        read_gates(&reading);
        if (!stopped && (reading.stop || is_behind())) {
            stopped = stop(&reading);
            if (!stopped) continue;
            quarantine();
            read_gates(&reading);
        }
        if (reading.stop) {
            for (uint32_t i = 0; i < rowen_place_count; i++) acknowledge(&rowen_places[i], reading.gates[i]);
        } else if (stopped || !rowen_granted()) {
            go_on(stopped);
            stopped = false;
        }
        wait_for_change(&reading, reading.timeout_ns);
    }
}

static void *control(void *unused) {
    (void)unused;
    stopper.control_tid = (pid_t)syscall(SYS_gettid);
    leave_devices();
    rowen_raise(0); /* without the right to do so the agent does it from outside */
    pthread_setname_np(pthread_self(), "rowen-gate");
    follow_gates();
}

int rowen_follow_start(void) {
    atomic_store(&ready, 0);
    rowen_grant_reset();
    rowen_stop_reset();
    /* The application's signals are not for this thread, nor is the parking signal; 32 and 33 are glibc's own. */
    uint64_t most = ~(3ull << 31), before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &most, &before, sizeof most);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, control, NULL);
    pthread_attr_destroy(&attributes);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    if (error) return -error;
    while (!atomic_load(&ready)) rowen_wait(&ready, 0, ROWEN_SECOND, false);
    return 0;
}
