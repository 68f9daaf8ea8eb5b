/* The online side: an engine says when it is busy. Nothing here waits for anybody outside the process. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/arena/loan.h"
#include "shared/threads.h"

#define ASK_NS ROWEN_SECOND
#define CHECK_MS 250
#define SHORTEST_PAUSE_NS (10 * ROWEN_MS)
#define LONGEST_PAUSE_NS (250 * ROWEN_MS)
/* As long as a lease lasts. The next agent's device has none before the API server has answered it. */
#define ALONE_NS (2 * ROWEN_SECOND)

/* Held for some instructions, and for the mapping of new files; never while anybody is asked. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rowen_link link_;
static bool started;          /* the watcher runs */
static _Atomic bool attached; /* the link's files are mapped; they stay so */
/* What the agent is told, kept here for the next agent. */
static uint32_t in_flight;
static uint64_t idle_since_ns;
static uint64_t step_end_ns;
static bool failed;
static _Atomic bool pins; /* was asked to stay on the device's CPUs */
static cpu_set_t pinned;  /* under lock: where it was put last */

/* A child serves nobody until it attaches itself. */
static void detach_child(void) {
    pthread_mutex_init(&lock, NULL);
    rowen_link_forget(&link_);
    memset(&link_, 0, sizeof link_);
    rowen_loan_forget(&link_);
    atomic_store(&attached, false);
    started = false;
    in_flight = 0;
    step_end_ns = 0;
    failed = false;
    atomic_store(&pins, false);
    CPU_ZERO(&pinned);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, detach_child); }

static void tell_agent(void) {
    atomic_fetch_add(&link_.device->block.events, 1);
    rowen_wake(&link_.device->block.events, true);
}

static int32_t adopt(const struct rowen_files *files) {
    pthread_mutex_lock(&lock);
    int32_t error = rowen_link_adopt(&link_, files);
    if (!error) {
        atomic_store(&link_.member->block.in_flight, in_flight);
        atomic_store(&link_.member->block.idle_since_ns, idle_since_ns);
        atomic_store(&link_.member->failed, failed);
        atomic_store(&attached, true);
        if (in_flight || failed) rowen_close_gate(link_.device, true);
        tell_agent();
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static cpu_set_t device_cpus(void) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (atomic_load(&link_.device->cpus[cpu / 64]) >> (cpu % 64) & 1) CPU_SET(cpu, &cpus);
    return cpus;
}

static int32_t pin_to(const cpu_set_t *cpus) {
    int32_t error = CPU_COUNT(cpus) ? rowen_threads_pin(cpus, 0) : 0; /* none: not said */
    pthread_mutex_lock(&lock);
    if (!error) pinned = *cpus;
    pthread_mutex_unlock(&lock);
    return error;
}

/* Not for the same CPUs again: threads that the application has put elsewhere since stay there when an agent is
 * replaced. */
static void follow_cpus(void) {
    cpu_set_t cpus = device_cpus();
    pthread_mutex_lock(&lock);
    bool there = CPU_EQUAL(&cpus, &pinned);
    pthread_mutex_unlock(&lock);
    int32_t error = there ? 0 : pin_to(&cpus);
    if (error) dprintf(STDERR_FILENO, "rowen: the engine could not be pinned to its device: %s\n", strerror(-error));
}

static int32_t attach(void) {
    struct rowen_files files;
    char reason[ROWEN_REASON_LENGTH];
    int32_t error = rowen_link_ask(&link_, &files, reason, ASK_NS);
    if (!error) error = adopt(&files);
    /* When that agent is gone again, the watcher finds it out. */
    if (!error) rowen_loan_hand_over(&link_);
    if (!error && atomic_load(&pins)) follow_cpus();
    return error;
}

/* Nobody opens a gate without an agent. Tenants that still follow this one must not run on while the engine has gone
 * over to the next. */
static void close_behind(void) {
    if (!atomic_load(&attached)) return;
    pthread_mutex_lock(&lock);
    rowen_close_gate(link_.device, false);
    pthread_mutex_unlock(&lock);
}

/* Without an agent nobody lends: when the lease has run out, tenants stand still, and the engine takes what it needs. */
static void stand_alone(uint64_t lost_ns) {
    struct rowen_arena *arena = atomic_load(&link_.arena);
    uint64_t now_ns = rowen_now();
    if (!arena || now_ns < lost_ns + ALONE_NS) return;
    if (now_ns < atomic_load(&link_.device->block.lease_until_ns)) return;
    if (rowen_arena_alone(arena, true))
        dprintf(STDERR_FILENO, "rowen: the agent is gone: the engine takes by itself what memory it needs\n");
}

static void *watch(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "rowen-engine");
    uint64_t pause_ns = SHORTEST_PAUSE_NS, lost_ns = 0;
    for (;;) {
        if (!rowen_link_lost(&link_)) {
            struct pollfd connection = {.fd = link_.socket, .events = POLLRDHUP};
            poll(&connection, 1, CHECK_MS);
            pause_ns = SHORTEST_PAUSE_NS;
            lost_ns = 0;
            continue;
        }
        if (!lost_ns) lost_ns = rowen_now();
        close_behind();
        if (attach() == 0) continue;
        stand_alone(lost_ns);
        _Atomic uint32_t nothing = 0;
        rowen_wait(&nothing, 0, pause_ns, false);
        pause_ns = pause_ns * 2 < LONGEST_PAUSE_NS ? pause_ns * 2 : LONGEST_PAUSE_NS;
    }
    return NULL;
}

static int32_t start_watcher(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, watch, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    started = error == 0;
    return -error;
}

int32_t rowen_online_attach(const char *socket_path) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static pthread_mutex_t attaching = PTHREAD_MUTEX_INITIALIZER;
    if (!socket_path) return -EINVAL;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&attaching);
    int32_t result = 0;
    if (!started) {
        result = rowen_link_init(&link_, socket_path, true);
        int32_t first = result ? result : attach();
        if (!result) result = start_watcher();
        if (!result) result = first;
    } else if (!atomic_load(&attached)) {
        result = -EAGAIN;
    }
    pthread_mutex_unlock(&attaching);
    return result;
}

int32_t rowen_online_busy(void) {
    int32_t closed = 0;
    pthread_mutex_lock(&lock);
    in_flight++;
    if (atomic_load(&attached)) {
        /* Before the gate word: whoever sees this call's count there also sees the request. */
        atomic_store(&link_.member->block.in_flight, in_flight);
        closed = rowen_close_gate(link_.device, true);
    }
    pthread_mutex_unlock(&lock);
    return closed;
}

void rowen_online_idle(void) {
    pthread_mutex_lock(&lock);
    if (in_flight > 0 && --in_flight == 0) idle_since_ns = rowen_now();
    if (atomic_load(&attached)) {
        struct rowen_member_block *block = &link_.member->block;
        /* In this order: who sees nothing in flight also sees since when. */
        atomic_store(&block->idle_since_ns, idle_since_ns);
        atomic_store(&block->in_flight, in_flight);
        if (in_flight == 0) tell_agent();
    }
    pthread_mutex_unlock(&lock);
}

static void note_gap(uint64_t at_ns, uint64_t gap_ns) {
    struct rowen_member_page *member = link_.member;
    uint64_t made = atomic_load(&member->gaps_made);
    struct rowen_gap *gap = &member->gaps[made % ROWEN_GAPS];
    atomic_store(&gap->at_ns, at_ns);
    atomic_store(&gap->gap_ns, gap_ns);
    atomic_store(&member->gaps_made, made + 1);
}

void rowen_online_step(uint64_t begin_ns, uint64_t end_ns) {
    pthread_mutex_lock(&lock);
    uint64_t previous = step_end_ns;
    /* What follows a step that leaves nothing in flight is a pause between requests. */
    step_end_ns = in_flight ? end_ns : 0;
    bool within = previous != 0 && begin_ns > previous && idle_since_ns <= previous;
    if (within && atomic_load(&attached)) note_gap(begin_ns, begin_ns - previous);
    pthread_mutex_unlock(&lock);
}

void rowen_online_record(uint64_t begin_ns, uint64_t ttft_ns, uint64_t tpot_ns, uint32_t output_tokens,
                         uint32_t tenant_present) {
    if (!atomic_load(&attached)) return;
    pthread_mutex_lock(&lock);
    struct rowen_member_page *member = link_.member;
    uint64_t number = atomic_load(&member->records_made) + 1;
    struct rowen_record *record = &member->records[(number - 1) % ROWEN_RECORDS];
    atomic_store(&record->number, 0);
    atomic_store(&record->begin_ns, begin_ns);
    atomic_store(&record->end_ns, rowen_now());
    atomic_store(&record->ttft_ns, ttft_ns);
    atomic_store(&record->tpot_ns, tpot_ns);
    atomic_store(&record->output_tokens, output_tokens);
    atomic_store(&record->tenant_present, tenant_present);
    atomic_store(&record->number, number);
    atomic_store(&member->records_made, number);
    pthread_mutex_unlock(&lock);
}

struct rowen_arena *rowen_online_memory(uint32_t capacity, int32_t *error) {
    *error = -ENOTCONN;
    return atomic_load(&attached) ? rowen_loan_open(&link_, capacity, error) : NULL;
}

void rowen_online_fail(void) {
    pthread_mutex_lock(&lock);
    failed = true;
    if (atomic_load(&attached)) {
        atomic_store(&link_.member->failed, true);
        rowen_close_gate(link_.device, true);
        tell_agent();
    }
    pthread_mutex_unlock(&lock);
}

uint32_t rowen_online_tenants(void) { return atomic_load(&attached) ? atomic_load(&link_.device->tenants) : 0; }

int32_t rowen_online_pin(void) {
    /* In this order: either this call sees the device, or the watcher sees the wish. */
    atomic_store(&pins, true);
    if (!atomic_load(&attached)) return 0;
    cpu_set_t cpus = device_cpus();
    return pin_to(&cpus);
}
