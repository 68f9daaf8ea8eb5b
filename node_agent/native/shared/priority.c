/* Puts a tenant's control thread before everything that it has to stop.
 *
 * Real-time priority does that, but a kernel with real-time group scheduling grants it to no thread in a cgroup
 * without a real-time budget, as pods are. A deadline reservation is no part of that: it is admitted for the machine
 * as a whole, as long as the thread may use every CPU. Niceness is the last resort: among the groups of a busy CPU it
 * gives a wake-up of some milliseconds. What such a thread starts has none of it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/page.h"

#define NICENESS (-20)
/* A stop takes some 0.1 to 0.5 ms; a twentieth of a CPU is set aside for each process. The deadline is the period: with
 * a shorter one a thread that wakes between the two has to wait for the next period. */
#define DEADLINE_RUNTIME_NS (2 * ROWEN_MS)
#define DEADLINE_PERIOD_NS (40 * ROWEN_MS)
#define POLICY_DEADLINE 6
#define FLAG_RESET_ON_FORK 1u

/* `struct sched_attr` of sched_setattr(2), first version. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};
_Static_assert(sizeof(struct attributes) == 48, "SCHED_ATTR_SIZE_VER0");

static bool set_fifo(pid_t tid) {
    struct sched_param param = {.sched_priority = ROWEN_CONTROL_PRIORITY};
    return sched_setscheduler(tid, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0;
}

static bool set_deadline(pid_t tid) {
    cpu_set_t before, all;
    memset(&all, 0xff, sizeof all);
    if (sched_getaffinity(tid, sizeof before, &before) != 0 || sched_setaffinity(tid, sizeof all, &all) != 0)
        return false;
    struct attributes attributes = {
        .size = sizeof attributes, .policy = POLICY_DEADLINE, .flags = FLAG_RESET_ON_FORK,
        .runtime_ns = DEADLINE_RUNTIME_NS, .deadline_ns = DEADLINE_PERIOD_NS, .period_ns = DEADLINE_PERIOD_NS,
    };
    if (syscall(SYS_sched_setattr, tid, &attributes, 0) == 0) return true;
    sched_setaffinity(tid, sizeof before, &before);
    return false;
}

int32_t rowen_raise(int32_t tid) {
    if (set_fifo(tid)) return SCHED_FIFO;
    if (errno == ESRCH) return -ESRCH;
    if (set_deadline(tid)) return POLICY_DEADLINE;
    struct sched_param none = {0};
    if (sched_setscheduler(tid, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) != 0) return -errno;
    return setpriority(PRIO_PROCESS, (id_t)tid, NICENESS) == 0 ? SCHED_OTHER : -errno;
}

static bool goes_first(pid_t tid) {
    int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;
    errno = 0;
    return policy == SCHED_FIFO || policy == POLICY_DEADLINE ||
           (getpriority(PRIO_PROCESS, (id_t)tid) < 0 && errno == 0);
}

int32_t rowen_lower(int32_t tid) {
    if (!goes_first(tid)) return 0;
    struct sched_param none = {0};
    sched_setscheduler(tid, SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
    setpriority(PRIO_PROCESS, (id_t)tid, 0);
    return 1;
}

int rowen_make_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    int error = pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return -error;
}
