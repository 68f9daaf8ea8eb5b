/* The offline side: attaches when the library is loaded, and again in every child. */
#define _GNU_SOURCE
#include "tenant/tenant.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/arena/loan.h"
#include "shared/threads.h"

#define SOCKETS_VARIABLE "ROWEN_TENANT_SOCKETS"
/* A process waits so long for its agent before it gives up; an agent that is being replaced takes some seconds. */
#define PATIENCE_NS (300 * ROWEN_SECOND)
#define ASK_NS (10 * ROWEN_SECOND)
#define LONGEST_PAUSE_NS (250 * ROWEN_MS)

struct rowen_place rowen_places[ROWEN_TENANT_DEVICES];
uint32_t rowen_place_count;
_Atomic bool rowen_gated;
static bool reported; /* by this process */
static uint64_t first_tokens, first_granted_ns;

static _Noreturn void refuse(const char *what, int error, const char *reason) {
    const char *why = error == -EPROTO ? "another version of Rowen" : strerror(-error);
    dprintf(STDERR_FILENO, "rowen: this process does not run: %s: %s%s%s\n", what, why, reason[0] ? ": " : "", reason);
    _exit(1);
}

/* The agent is not there, or has not got round to it; it may be soon. */
static bool may_pass(int error) {
    return error == -ENOENT || error == -ECONNREFUSED || error == -ECONNRESET || error == -EAGAIN ||
           error == -ETIMEDOUT || error == -EPIPE;
}

static void enter(struct rowen_place *place) {
    struct rowen_files files;
    char reason[ROWEN_REASON_LENGTH];
    uint64_t end = rowen_now() + PATIENCE_NS, pause = ROWEN_MS;
    int error;
    while ((error = rowen_link_ask(&place->link, &files, reason, ASK_NS)) != 0) {
        if (!may_pass(error) || rowen_now() > end) refuse(place->link.path, error, reason);
        _Atomic uint32_t nothing = 0;
        rowen_wait(&nothing, 0, pause, false);
        pause = pause * 2 < LONGEST_PAUSE_NS ? pause * 2 : LONGEST_PAUSE_NS;
    }
    error = rowen_link_adopt(&place->link, &files);
    if (error) refuse(place->link.path, error, "");
    place->lost = false;
}

static void enter_all(const char *paths) {
    for (const char *rest = paths; rest;) {
        if (rowen_place_count == ROWEN_TENANT_DEVICES) refuse(SOCKETS_VARIABLE, -E2BIG, "");
        struct rowen_place *place = &rowen_places[rowen_place_count];
        int error = rowen_link_init(&place->link, &rest, false);
        if (error) refuse(rest, error, "");
        enter(place);
        rowen_place_count++;
    }
}

static cpu_set_t pinned; /* where the process was put last */

bool rowen_stay_on_devices(pid_t control_tid) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    ROWEN_FOR_PLACES(place)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (atomic_load(&place->link.device->cpus[cpu / 64]) >> (cpu % 64) & 1) CPU_SET(cpu, &cpus);
    if (!CPU_COUNT(&cpus) || CPU_EQUAL(&cpus, &pinned)) return false; /* none: not said */
    if (rowen_threads_pin(&cpus, control_tid) == 0) pinned = cpus;
    return true;
}

static void start(void) {
    int error = rowen_follow_start();
    if (error) refuse("control thread", error, "");
}

/* A child has one thread and no control thread; files and connection are its parent's. */
static void attach_child(void) {
    reported = false;
    ROWEN_FOR_PLACES(place) {
        rowen_link_forget(&place->link);
        rowen_loan_forget(&place->link);
        enter(place);
    }
    rowen_stay_on_devices(0);
    start();
}

__attribute__((constructor)) static void load(void) {
    const char *list = getenv(SOCKETS_VARIABLE);
    if (!list) return;
    enter_all(list);
    rowen_stay_on_devices(0);
    int error = rowen_stop_install();
    if (error) refuse("signal handler", error, "");
    atomic_store(&rowen_gated, true);
    start();
    pthread_atfork(NULL, NULL, attach_child);
}

struct rowen_arena *rowen_tenant_memory(uint32_t device, uint32_t capacity, int32_t *error) {
    *error = -ENXIO;
    return device < rowen_place_count ? rowen_loan_open(&rowen_places[device].link, capacity, error) : NULL;
}

void rowen_tenant_progress(uint64_t completed, uint64_t total, uint64_t tokens) {
    uint64_t granted = rowen_tenant_granted_ns();
    if (!reported) {
        first_tokens = tokens;
        first_granted_ns = granted;
        reported = true;
    }
    ROWEN_FOR_PLACES(place) {
        struct rowen_progress *progress = &place->link.member->progress;
        /* Every time: the agent that has the first report may be gone. */
        atomic_store(&progress->first_tokens, first_tokens);
        atomic_store(&progress->first_granted_ns, first_granted_ns);
        atomic_store(&progress->completed, completed);
        atomic_store(&progress->total, total);
        atomic_store(&progress->tokens, tokens);
        atomic_store(&progress->granted_ns, granted);
        atomic_fetch_add(&progress->reports, 1);
    }
}
