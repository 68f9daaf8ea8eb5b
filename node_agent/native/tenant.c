/* The offline side: attaches when the library is loaded, stops this process while the gate is closed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tenant.h"

#define POLL_NS (100 * ROWEN_MS)

static struct rowen_device_page *device;
static struct rowen_tenant_page *page;
static int page_fd = -1;
static struct rowen_process_slot *slot;
static bool reported; /* by this process */
static struct rowen_parking parking;
static _Atomic uint32_t ready; /* futex: the control thread has looked at the gate */

static _Noreturn void refuse(const char *what, int error) {
    const char *why = error == -EPROTO ? "made by another version of Rowen" : strerror(-error);
    dprintf(STDERR_FILENO, "rowen: this process does not run: %s: %s\n", what, why);
    _exit(1);
}

/* The gate as it counts: a lease that has run out closes it too. */
static bool must_stop(uint32_t gate) { return rowen_closed(gate) || atomic_load(&device->lease_until_ns) <= rowen_now(); }

static bool may_run(void) { return !must_stop(rowen_gate(device)); }

static void set_running(uint64_t since_ns, uint64_t add_ns) {
    atomic_fetch_add(&slot->version, 1);
    atomic_fetch_add(&slot->granted_ns, add_ns);
    atomic_store(&slot->running_since_ns, since_ns);
    atomic_fetch_add(&slot->version, 1);
}

/* The grant ends when the gate closed or the lease ran out, not when this thread got to know. */
static void end_grant(void) {
    uint64_t since = atomic_load(&slot->running_since_ns);
    if (since == 0) return;
    uint64_t end = rowen_now();
    uint64_t closed_at = atomic_load(&device->closed_at_ns);
    uint64_t lease = atomic_load(&device->lease_until_ns);
    if (closed_at >= since && closed_at < end) end = closed_at;
    if (lease < end) end = lease;
    set_running(0, end > since ? end - since : 0);
}

static void acknowledge(uint32_t gate) {
    if (!rowen_closed(gate) || atomic_load(&slot->ack) == gate) return;
    atomic_store(&slot->ack_ns, rowen_now());
    atomic_store(&slot->ack, gate);
}

static void announce_ready(void) {
    if (atomic_exchange(&ready, 1) == 0) rowen_wake(&ready, false);
}

/* Follows the gate for ever. A thread that is parked stays so until the gate counts as open. */
static void follow_gate(void) {
    bool stopped = false;
    for (;;) {
        uint32_t gate = rowen_gate(device);
        bool stop = must_stop(gate);
        if (stop && !stopped) {
            end_grant();
            stopped = true;
            atomic_store(&slot->state, ROWEN_ATTACHED);
            announce_ready();
            if (!rowen_park_all(&parking, may_run)) {
                rowen_unpark_all();
                set_running(rowen_now(), 0);
                stopped = false;
                rowen_wait(rowen_gate_futex(device), gate, ROWEN_MS, true);
                continue;
            }
            atomic_fetch_add(&slot->parks, 1);
        }
        if (stop) {
            acknowledge(gate);
        } else if (stopped || atomic_load(&slot->running_since_ns) == 0) {
            set_running(rowen_now(), 0);
            if (stopped) rowen_unpark_all();
            stopped = false;
            atomic_store(&slot->state, ROWEN_ATTACHED);
            announce_ready();
        }
        uint64_t timeout = POLL_NS;
        uint64_t now = rowen_now(), lease = atomic_load(&device->lease_until_ns);
        if (!stop && lease > now && lease - now < timeout) timeout = lease - now;
        rowen_wait(rowen_gate_futex(device), gate, timeout, true);
    }
}

/* Off the device's CPUs, where there are others: there it would wait for the threads that it has to stop. */
static void leave_device(void) {
    cpu_set_t others;
    CPU_ZERO(&others);
    long count = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < count && cpu < CPU_SETSIZE; cpu++)
        if (!(device->cpus[cpu / 64] >> (cpu % 64) & 1)) CPU_SET(cpu, &others);
    if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
}

/* Without the right to do so the agent does it from outside. */
static void raise_priority(void) {
    struct sched_param param = {.sched_priority = 2};
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) != 0) setpriority(PRIO_PROCESS, 0, -20);
}

static void *control(void *unused) {
    (void)unused;
    parking.control_tid = (pid_t)syscall(SYS_gettid);
    leave_device();
    raise_priority();
    pthread_setname_np(pthread_self(), "rowen-gate");
    atomic_store(&slot->control_tid, parking.control_tid);
    follow_gate();
    return NULL;
}

static void start_control(void) {
    atomic_store(&ready, 0);
    rowen_park_reset();
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

static void claim_slot(void) {
    int index = 0;
    while (index < ROWEN_PROCESS_SLOTS && !rowen_lock(page_fd, index)) index++;
    if (index == ROWEN_PROCESS_SLOTS) refuse("process slots", -EUSERS);
    slot = &page->processes[index];
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

static void attach(void) {
    int device_fd;
    device = map_page(getenv("ROWEN_DEVICE_PAGE"), sizeof *device, ROWEN_DEVICE_MAGIC, false, &device_fd);
    close(device_fd);
    page = map_page(getenv("ROWEN_TENANT_PAGE"), sizeof *page, ROWEN_TENANT_MAGIC, true, &page_fd);
    claim_slot();
    sched_setaffinity(0, sizeof device->cpus, (const cpu_set_t *)device->cpus);
    int error = rowen_park_install();
    if (error) refuse("signal handler", error);
    atomic_store(&rowen_gated, true);
    start_control();
}

/* A child has one thread, no control thread and no lock; mappings and descriptor are its parent's. */
static void attach_child(void) {
    reported = false;
    claim_slot();
    start_control();
}

__attribute__((constructor)) static void load(void) {
    if (!getenv("ROWEN_TENANT_PAGE") || !getenv("ROWEN_DEVICE_PAGE")) return;
    attach();
    pthread_atfork(NULL, NULL, attach_child);
}

uint64_t rowen_tenant_granted_ns(void) {
    if (!slot) return 0;
    for (;;) {
        uint32_t version = atomic_load(&slot->version);
        uint64_t granted = atomic_load(&slot->granted_ns);
        uint64_t since = atomic_load(&slot->running_since_ns);
        if (version % 2 || atomic_load(&slot->version) != version) {
            sched_yield();
            continue;
        }
        uint64_t now = rowen_now(), closed_at = atomic_load(&device->closed_at_ns);
        if (since && closed_at >= since && closed_at < now) now = closed_at;
        return granted + (since && now > since ? now - since : 0);
    }
}

void rowen_tenant_progress(uint64_t completed, uint64_t total, uint64_t tokens) {
    if (!page) return;
    uint64_t granted = rowen_tenant_granted_ns();
    if (!reported) {
        reported = true;
        atomic_store(&page->first_tokens, tokens);
        atomic_store(&page->first_granted_ns, granted);
    }
    atomic_store(&page->completed, completed);
    atomic_store(&page->total, total);
    atomic_store(&page->tokens, tokens);
    atomic_store(&page->granted_ns, granted);
    atomic_fetch_add(&page->reports, 1);
}
