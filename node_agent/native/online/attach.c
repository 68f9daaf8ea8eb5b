/* How an engine comes to its devices, stays with them from agent to agent, and on their CPUs. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/arena/loan.h"
#include "online/online.h"
#include "shared/threads.h"

#define ASK_NS ROWEN_SECOND
#define CHECK_MS 250
#define SHORTEST_PAUSE_NS (10 * ROWEN_MS)
#define LONGEST_PAUSE_NS (250 * ROWEN_MS)
/* As long as a lease lasts. The next agent's device has none before the API server has answered it. */
#define ALONE_NS (2 * ROWEN_SECOND)

struct rowen_engine rowen_engine = {.lock = PTHREAD_MUTEX_INITIALIZER};
static bool started;      /* the watcher runs */
static _Atomic bool pins; /* was asked to stay on its devices' CPUs */
static cpu_set_t pinned;  /* under the engine's lock: where it was put last */

/* A child serves nobody until it attaches itself. */
static void detach_child(void) {
    ROWEN_FOR_ENGINE_PLACES(place) {
        rowen_link_forget(&place->link);
        rowen_loan_forget(&place->link);
    }
    memset(&rowen_engine, 0, sizeof rowen_engine);
    pthread_mutex_init(&rowen_engine.lock, NULL);
    started = false;
    atomic_store(&pins, false);
    CPU_ZERO(&pinned);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, detach_child); }

static int32_t adopt(struct rowen_engine_place *place, const struct rowen_files *files) {
    pthread_mutex_lock(&rowen_engine.lock);
    int32_t error = rowen_link_adopt(&place->link, files);
    if (!error) {
        struct rowen_member_page *member = place->link.member;
        atomic_store(&member->block.in_flight, rowen_engine.in_flight);
        atomic_store(&member->block.idle_since_ns, rowen_engine.idle_since_ns);
        atomic_store(&member->failed, rowen_engine.failed);
        rowen_engine_compose(member);
        atomic_store(&place->attached, true);
        if (rowen_engine.in_flight || rowen_engine.failed) rowen_close_gate(place->link.device, true);
        rowen_engine_tell(place);
    }
    pthread_mutex_unlock(&rowen_engine.lock);
    return error;
}

/* Of all its devices; none before each of them has told its own: with a part of them the engine would be slower than
 * without Rowen. */
static cpu_set_t device_cpus(void) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    ROWEN_FOR_ENGINE_PLACES(place) {
        if (!atomic_load(&place->attached)) {
            CPU_ZERO(&cpus);
            return cpus;
        }
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (atomic_load(&place->link.device->cpus[cpu / 64]) >> (cpu % 64) & 1) CPU_SET(cpu, &cpus);
    }
    return cpus;
}

static int32_t pin_to(const cpu_set_t *cpus) {
    int32_t error = CPU_COUNT(cpus) ? rowen_threads_pin(cpus, 0) : 0; /* none: not said */
    pthread_mutex_lock(&rowen_engine.lock);
    if (!error) pinned = *cpus;
    pthread_mutex_unlock(&rowen_engine.lock);
    return error;
}

/* Not for the same CPUs again: threads that the application has put elsewhere since stay there when an agent is
 * replaced. */
static void follow_cpus(void) {
    cpu_set_t cpus = device_cpus();
    pthread_mutex_lock(&rowen_engine.lock);
    bool there = CPU_EQUAL(&cpus, &pinned);
    pthread_mutex_unlock(&rowen_engine.lock);
    int32_t error = there ? 0 : pin_to(&cpus);
    if (error) dprintf(STDERR_FILENO, "rowen: the engine could not be pinned to its devices: %s\n", strerror(-error));
}

/* Nobody opens a gate without an agent. Tenants that still follow this one must not run on while the engine has gone
 * over to the next. */
static void close_behind(struct rowen_engine_place *place) {
    if (!atomic_load(&place->attached)) return;
    pthread_mutex_lock(&rowen_engine.lock);
    rowen_close_gate(place->link.device, false);
    pthread_mutex_unlock(&rowen_engine.lock);
}

static int32_t attach(struct rowen_engine_place *place) {
    close_behind(place); /* it may have been lost while another device was asked for */
    struct rowen_files files;
    char reason[ROWEN_REASON_LENGTH];
    int32_t error = rowen_link_ask(&place->link, &files, reason, ASK_NS);
    if (!error) error = adopt(place, &files);
    /* When that agent is gone again, the watcher finds it out. */
    if (!error) rowen_loan_hand_over(&place->link);
    return error;
}

/* Without an agent nobody lends: when the lease has run out, tenants stand still, and the engine takes what it needs. */
static void stand_alone(struct rowen_engine_place *place) {
    struct rowen_arena *arena = atomic_load(&place->link.arena);
    uint64_t now_ns = rowen_now();
    if (!arena || now_ns < place->lost_ns + ALONE_NS) return;
    if (now_ns < atomic_load(&place->link.device->block.lease_until_ns)) return;
    if (rowen_arena_alone(arena, true))
        dprintf(STDERR_FILENO, "rowen: the agent is gone: the engine takes by itself what memory it needs\n");
}

/* Whether a device has no agent. Those that have just lost theirs are closed before anybody is asked anything. */
static bool any_lost(void) {
    bool any = false;
    ROWEN_FOR_ENGINE_PLACES(place) {
        bool lost = rowen_link_lost(&place->link);
        if (!lost) place->lost_ns = 0;
        else if (!place->lost_ns) place->lost_ns = rowen_now();
        if (lost) close_behind(place);
        any |= lost;
    }
    return any;
}

/* Asks for each device that has no agent. 0: all have one; else why the first has none: -errno. */
static int32_t attach_all(void) {
    int32_t first = 0;
    bool came = false;
    ROWEN_FOR_ENGINE_PLACES(place) {
        if (!rowen_link_lost(&place->link)) continue;
        int32_t error = attach(place);
        if (error) stand_alone(place);
        else came = true;
        if (!first) first = error;
    }
    if (came && atomic_load(&pins)) follow_cpus();
    return first;
}

static void await_loss(void) {
    struct pollfd connections[ROWEN_ENGINE_DEVICES];
    nfds_t count = 0;
    ROWEN_FOR_ENGINE_PLACES(place)
        connections[count++] = (struct pollfd){.fd = place->link.socket, .events = POLLRDHUP};
    poll(connections, count, CHECK_MS);
}

static void *watch(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "rowen-engine");
    uint64_t pause_ns = SHORTEST_PAUSE_NS;
    for (;;) {
        if (!any_lost()) {
            await_loss();
            pause_ns = SHORTEST_PAUSE_NS;
            continue;
        }
        if (attach_all() == 0) continue;
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

/* Notes where the devices' sockets are. */
static int32_t seat(const char *paths) {
    uint32_t count = 0;
    for (const char *rest = paths; rest; count++) {
        int32_t error = count == ROWEN_ENGINE_DEVICES
                            ? -E2BIG
                            : rowen_link_init(&rowen_engine.places[count].link, &rest, true);
        if (error) return error;
    }
    atomic_store(&rowen_engine.count, count);
    return 0;
}

static bool all_attached(void) {
    ROWEN_FOR_ENGINE_PLACES(place) if (!atomic_load(&place->attached)) return false;
    return true;
}

int32_t rowen_online_attach(const char *socket_paths) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static pthread_mutex_t attaching = PTHREAD_MUTEX_INITIALIZER;
    if (!socket_paths) return -EINVAL;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&attaching);
    int32_t result = 0;
    if (!started) {
        result = atomic_load(&rowen_engine.count) ? 0 : seat(socket_paths);
        int32_t first = result ? result : attach_all();
        if (!result) result = start_watcher();
        if (!result) result = first;
    } else if (!all_attached()) {
        result = -EAGAIN;
    }
    pthread_mutex_unlock(&attaching);
    return result;
}

int32_t rowen_online_pin(void) {
    /* In this order: either this call sees the devices, or the watcher sees the wish. */
    atomic_store(&pins, true);
    cpu_set_t cpus = device_cpus();
    return pin_to(&cpus);
}
