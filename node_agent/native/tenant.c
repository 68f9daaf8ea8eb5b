/* The offline side: attaches when the library is loaded, stops this process while a gate is closed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tenant.h"

#define POLL_NS (100 * ROWEN_MS)

/* One device that this process is on. */
struct place {
    struct rowen_device_page *device;
    struct rowen_tenant_page *page;
    int page_fd;
    struct rowen_process_slot *slot;
};

static struct place places[ROWEN_TENANT_DEVICES];
static uint32_t place_count; /* 0: not attached */
static bool reported; /* by this process */
static struct rowen_stopper stopper;
_Atomic bool rowen_gated;
static _Atomic uint32_t ready; /* futex: the control thread has looked at the gates */

static _Noreturn void refuse(const char *what, int error) {
    const char *why = error == -EPROTO ? "made by another version of Rowen" : strerror(-error);
    dprintf(STDERR_FILENO, "rowen: this process does not run: %s: %s\n", what, why);
    _exit(1);
}

#define FOR_PLACES(place) for (struct place *place = places; place < places + place_count; place++)

/* The gate as it counts: a lease that has run out closes it too. */
static bool must_stop(const struct place *place, uint32_t gate) {
    return rowen_closed(gate) || atomic_load(&place->device->lease_until_ns) <= rowen_now();
}

static bool may_run(void) {
    FOR_PLACES(place)
        if (must_stop(place, rowen_gate(place->device))) return false;
    return true;
}

/* Granted time is the process's; every page shows it. */
static void set_running(uint64_t since_ns, uint64_t add_ns) {
    FOR_PLACES(place) {
        struct rowen_process_slot *slot = place->slot;
        atomic_fetch_add(&slot->version, 1);
        atomic_fetch_add(&slot->granted_ns, add_ns);
        atomic_store(&slot->running_since_ns, since_ns);
        atomic_fetch_add(&slot->version, 1);
    }
}

static bool running(void) { return atomic_load(&places[0].slot->running_since_ns) != 0; }

/* The part of a grant that lies before now: it ended when a gate closed or a lease ran out, not when the control
 * thread got to know. */
static uint64_t granted_since(uint64_t since) {
    uint64_t end = rowen_now();
    FOR_PLACES(place) {
        uint64_t closed_at = atomic_load(&place->device->closed_at_ns);
        uint64_t lease = atomic_load(&place->device->lease_until_ns);
        if (rowen_closed(rowen_gate(place->device)) && closed_at >= since && closed_at < end) end = closed_at;
        if (lease < end) end = lease;
    }
    return end > since ? end - since : 0;
}

static void end_grant(void) {
    uint64_t since = atomic_load(&places[0].slot->running_since_ns);
    if (since != 0) set_running(0, granted_since(since));
}

static void acknowledge(struct rowen_process_slot *slot, uint32_t gate) {
    if (!rowen_closed(gate) || atomic_load(&slot->ack) == gate) return;
    atomic_store(&slot->ack_ns, rowen_now());
    atomic_store(&slot->ack, gate);
}

static void announce_ready(void) {
    FOR_PLACES(place) atomic_store(&place->slot->state, ROWEN_ATTACHED);
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
    for (uint32_t i = 0; i < place_count; i++) {
        reading->words[i] = rowen_gate_futex(places[i].device);
        reading->gates[i] = rowen_gate(places[i].device);
        if (must_stop(&places[i], reading->gates[i])) reading->stop = true;
    }
    uint64_t now = rowen_now();
    FOR_PLACES(place) {
        uint64_t lease = atomic_load(&place->device->lease_until_ns);
        if (!reading->stop && lease > now && lease - now < reading->timeout_ns) reading->timeout_ns = lease - now;
    }
}

static void wait_for_change(const struct reading *reading, uint64_t timeout_ns) {
    rowen_wait_any(reading->words, reading->gates, place_count, timeout_ns);
}

/* Follows the gates for ever. A thread that is parked stays so until all of them count as open. */
static void follow_gates(void) {
    bool stopped = false;
    for (;;) {
        struct reading reading;
        read_gates(&reading);
        if (reading.stop && !stopped) {
            end_grant();
            stopped = true;
            announce_ready();
            if (!rowen_stop_all(&stopper, may_run)) {
                rowen_go_all();
                set_running(rowen_now(), 0);
                stopped = false;
                wait_for_change(&reading, ROWEN_MS);
                continue;
            }
            FOR_PLACES(place) atomic_fetch_add(&place->slot->parks, 1);
        }
        if (reading.stop) {
            for (uint32_t i = 0; i < place_count; i++) acknowledge(places[i].slot, reading.gates[i]);
        } else if (stopped || !running()) {
            set_running(rowen_now(), 0);
            if (stopped) rowen_go_all();
            stopped = false;
            announce_ready();
        }
        wait_for_change(&reading, reading.timeout_ns);
    }
}

/* Those of all devices of this process. */
static void device_cpus(cpu_set_t *cpus) {
    CPU_ZERO(cpus);
    FOR_PLACES(place) CPU_OR(cpus, cpus, (const cpu_set_t *)place->device->cpus);
}

/* Off the devices' CPUs, where there are others: there it would wait for the threads that it has to stop. */
static void leave_devices(void) {
    cpu_set_t mine, others;
    device_cpus(&mine);
    CPU_ZERO(&others);
    long count = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < count && cpu < CPU_SETSIZE; cpu++)
        if (!CPU_ISSET(cpu, &mine)) CPU_SET(cpu, &others);
    if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
}

static void *control(void *unused) {
    (void)unused;
    stopper.control_tid = (pid_t)syscall(SYS_gettid);
    leave_devices();
    rowen_raise(0); /* without the right to do so the agent does it from outside */
    pthread_setname_np(pthread_self(), "rowen-gate");
    FOR_PLACES(place) atomic_store(&place->slot->control_tid, stopper.control_tid);
    follow_gates();
    return NULL;
}

static void start_control(void) {
    atomic_store(&ready, 0);
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
    if (error) refuse("control thread", -error);
    while (!atomic_load(&ready)) rowen_wait(&ready, 0, ROWEN_SECOND, false);
}

static void claim_slot(struct place *place) {
    int index = 0;
    while (index < ROWEN_PROCESS_SLOTS && !rowen_lock(place->page_fd, index)) index++;
    if (index == ROWEN_PROCESS_SLOTS) refuse("process slots", -EUSERS);
    struct rowen_process_slot *slot = place->slot = &place->page->processes[index];
    atomic_store(&slot->state, ROWEN_ATTACHING);
    atomic_store(&slot->ack, 0);
    atomic_store(&slot->version, 0);
    atomic_store(&slot->granted_ns, 0);
    atomic_store(&slot->running_since_ns, 0);
    atomic_store(&slot->parks, 0);
}

static void *map_page(const char *path, size_t size, uint64_t magic, bool writable, int *fd) {
    int error = 0;
    *fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (*fd < 0) refuse(path, -errno);
    void *memory = rowen_map(*fd, size, magic, writable, &error);
    if (!memory) refuse(path, error);
    return memory;
}

static void enter(struct place *place, const char *device_path, const char *page_path) {
    int device_fd;
    place->device = map_page(device_path, sizeof *place->device, ROWEN_DEVICE_MAGIC, false, &device_fd);
    close(device_fd);
    place->page = map_page(page_path, sizeof *place->page, ROWEN_TENANT_MAGIC, true, &place->page_fd);
    claim_slot(place);
}

static void enter_all(void) {
    char *devices = strdup(getenv("ROWEN_DEVICE_PAGE")), *pages = strdup(getenv("ROWEN_TENANT_PAGE"));
    char *next_device = devices, *next_page = pages;
    if (!devices || !pages) refuse("lists of pages", -ENOMEM);
    while (next_device || next_page) {
        const char *device = strsep(&next_device, ":"), *page = strsep(&next_page, ":");
        if (!device || !page) refuse("ROWEN_DEVICE_PAGE and ROWEN_TENANT_PAGE differ in length", -EINVAL);
        if (place_count == ROWEN_TENANT_DEVICES) refuse("ROWEN_DEVICE_PAGE", -E2BIG);
        enter(&places[place_count], device, page);
        place_count++;
    }
    free(devices);
    free(pages);
}

static void attach(void) {
    enter_all();
    cpu_set_t cpus;
    device_cpus(&cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    int error = rowen_stop_install();
    if (error) refuse("signal handler", error);
    atomic_store(&rowen_gated, true);
    start_control();
}

/* A child has one thread, no control thread and no lock; mappings and descriptors are its parent's. */
static void attach_child(void) {
    reported = false;
    FOR_PLACES(place) claim_slot(place);
    start_control();
}

__attribute__((constructor)) static void load(void) {
    if (!getenv("ROWEN_TENANT_PAGE") || !getenv("ROWEN_DEVICE_PAGE")) return;
    attach();
    pthread_atfork(NULL, NULL, attach_child);
}

uint64_t rowen_tenant_granted_ns(void) {
    if (!place_count) return 0;
    const struct rowen_process_slot *slot = places[0].slot;
    for (;;) {
        uint32_t version = atomic_load(&slot->version);
        uint64_t granted = atomic_load(&slot->granted_ns);
        uint64_t since = atomic_load(&slot->running_since_ns);
        if (version % 2 == 0 && atomic_load(&slot->version) == version)
            return granted + (since ? granted_since(since) : 0);
        sched_yield();
    }
}

void rowen_tenant_progress(uint64_t completed, uint64_t total, uint64_t tokens) {
    uint64_t granted = rowen_tenant_granted_ns();
    bool first = !reported;
    reported = true;
    FOR_PLACES(place) {
        struct rowen_tenant_page *page = place->page;
        if (first) {
            atomic_store(&page->first_tokens, tokens);
            atomic_store(&page->first_granted_ns, granted);
        }
        atomic_store(&page->completed, completed);
        atomic_store(&page->total, total);
        atomic_store(&page->tokens, tokens);
        atomic_store(&page->granted_ns, granted);
        atomic_fetch_add(&page->reports, 1);
    }
}
