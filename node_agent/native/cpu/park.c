/* Parking: every thread of the process but the control thread is made to wait inside a signal handler.
 *
 * A thread that has the signal pending and not blocked executes no further instruction of its own before the handler.
 * Only a thread that is on a CPU in user mode right then is not there yet; membarrier() interrupts those and returns
 * when it has. So the process stands still once every thread has been signalled and a barrier has passed, whether or
 * not its threads, which may be waiting for a CPU among many others, have got round to entering the handler.
 *
 * Threads are found in /proc/self/task. clone() gives up when a signal is pending, under the lock that signals are
 * sent with: a listing that begins after the signals were sent shows every thread that was made before. Listing is
 * repeated until it shows none that has not been signalled.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/threads.h"
#include "tenant/tenant.h"

#define TABLE_BITS 13
#define TABLE_SIZE (1u << TABLE_BITS) /* threads that can be told apart */
#define PROBES 64u
#define RETRY_NS (100 * 1000ull)
#define VERIFY_HOLDS 16u /* after which a thread's signal mask is looked at again */
/* PF_IO_WORKER: a thread that the kernel has made for io_uring. No application can set it. Before Linux 5.12, where such
 * threads are not the process's, the bit had another meaning, and no thread but a virtual machine's had it. */
#define IO_WORKER_FLAG 0x10ull

/* Odd: hold. The handler waits on it. */
static _Atomic uint32_t hold;
/* Threads inside the handler: tid << 32 | 1, and tid << 32 once they have left. */
static _Atomic uint64_t inside[TABLE_SIZE];

/* What the control thread alone knows of a thread. */
struct known {
    pid_t tid;
    uint32_t signalled; /* in this hold */
    uint32_t verified;  /* it was seen to be held by the signal, in this hold */
};
static struct known known[TABLE_SIZE];
static bool has_barrier;
_Atomic bool rowen_ends_at_once;

static uint32_t bucket_of(pid_t tid) { return ((uint32_t)tid * 2654435761u) >> (32 - TABLE_BITS); }

static _Atomic uint64_t *find_inside(pid_t tid) {
    uint64_t value = (uint64_t)(uint32_t)tid << 32 | 1;
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        _Atomic uint64_t *entry = &inside[(bucket_of(tid) + probe) % TABLE_SIZE];
        if (atomic_load(entry) == value) return entry;
    }
    return NULL;
}

static _Atomic uint64_t *enter(pid_t tid) {
    uint64_t value = (uint64_t)(uint32_t)tid << 32 | 1;
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        _Atomic uint64_t *entry = &inside[(bucket_of(tid) + probe) % TABLE_SIZE];
        uint64_t seen = atomic_load(entry);
        if (!(seen & 1) && atomic_compare_exchange_strong(entry, &seen, value)) return entry;
    }
    return NULL;
}

static void park_handler(int signal_number) {
    (void)signal_number;
    if (!(atomic_load(&hold) & 1u)) return;
    int saved = errno;
    _Atomic uint64_t *entry = enter((pid_t)syscall(SYS_gettid));
    for (uint32_t round; (round = atomic_load(&hold)) & 1u;) rowen_wait(&hold, round, 3600 * ROWEN_SECOND, false);
    /* A hold that begins here has sent the signal again: it waits until this handler returns, then enters it anew. */
    if (entry) atomic_fetch_and(entry, ~1ull);
    errno = saved;
}

/* Runs on top of park_handler() in a stopped process; what the application would do about the signal, a handler in
 * Python for one, runs only once the process goes on. */
static void end_handler(int signal_number) {
    (void)signal_number;
    _exit(ROWEN_EXIT_RETRY);
}

static int install(int signal_number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (rowen_real_sigaction(signal_number, &action, NULL) != 0) return -errno;
    uint64_t mask = 1ull << (signal_number - 1);
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, NULL, sizeof mask);
    return 0;
}

int rowen_stop_install(void) {
    int error = install(ROWEN_SIGNAL, park_handler);
    if (error || !getenv("ROWEN_JOB_SPEC")) return error;
    atomic_store(&rowen_ends_at_once, true);
    return install(SIGTERM, end_handler);
}

void rowen_stop_reset(void) {
    atomic_store(&hold, 0);
    memset(inside, 0, sizeof inside);
    memset(known, 0, sizeof known);
    /* Cheap as long as there is one thread. */
    has_barrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* The entry of a thread; that of a thread not seen in this hold may be taken over. NULL: too many threads. */
static struct known *know(pid_t tid, uint32_t round) {
    struct known *oldest = NULL;
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        struct known *entry = &known[(bucket_of(tid) + probe) % TABLE_SIZE];
        if (entry->tid == tid) return entry;
        if (!oldest && entry->signalled != round) oldest = entry;
    }
    if (oldest) *oldest = (struct known){.tid = tid};
    return oldest;
}

static const char *skip(const char *at, int fields) {
    for (; fields && at; fields--)
        if ((at = strchr(at, ' '))) at++;
    return at;
}

/* Whether the thread, which was signalled, runs no instruction of its own before the handler: it is dead or stopped,
 * sleeps uninterruptibly, is the kernel's (those block every signal, and never leave the kernel), or its mask lets the
 * signal through. A mask that does not was set by a raw system call. */
static bool is_held(pid_t tid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    const char *at = rowen_stat(path, text, sizeof text);
    if (!at) return true;
    if (strlen(at) < 3) return false;
    /* State is field 3, the flags are field 9, the mask of blocked signals (below 32) is field 32. */
    const char *state = at + 2, *flags = skip(state, 9 - 3), *blocked = skip(state, 32 - 3);
    if (strchr("DZXTt", *state) || (flags && strtoull(flags, NULL, 10) & IO_WORKER_FLAG)) return true;
    /* Without a barrier it may be on a CPU. */
    return has_barrier && blocked && !(strtoull(blocked, NULL, 10) >> (ROWEN_SIGNAL - 1) & 1);
}

struct pass {
    const struct rowen_stopper *stopper;
    uint32_t round;
    bool verify;
    bool news;    /* a thread was signalled just now */
    bool pending; /* a thread may still run */
};

static void visit(pid_t tid, void *context) {
    struct pass *pass = context;
    if (tid == pass->stopper->control_tid) return;
    struct known *thread = know(tid, pass->round);
    if (!thread || thread->signalled != pass->round) {
        pass->news = true;
        pass->pending = true;
        syscall(SYS_tgkill, getpid(), tid, ROWEN_SIGNAL);
        if (thread) thread->signalled = pass->round;
        return;
    }
    if (!pass->verify || find_inside(tid)) return;
    /* A hold and its end count two rounds. */
    if (has_barrier && thread->verified && (pass->round - thread->verified) / 2 < VERIFY_HOLDS) return;
    if (is_held(tid)) thread->verified = pass->round;
    else pass->pending = true;
}

static bool park_threads(const struct rowen_stopper *stopper, int tasks, bool (*abandon)(void)) {
    uint32_t round = atomic_fetch_add(&hold, 1) + 1;
    for (bool verify = false;; verify = true) {
        struct pass pass = {.stopper = stopper, .round = round, .verify = verify};
        rowen_threads_visit(tasks, visit, &pass);
        if (!pass.pending && verify) {
            if (has_barrier) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
            return true;
        }
        if (abandon()) return false;
        if (!pass.news && verify) rowen_wait(&hold, round, RETRY_NS, false);
    }
}

/* The kernel's struct sigaction. */
struct action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

/* A raw call may have put another in its place. */
static bool handler_is_ours(void) {
    struct action action = {0};
    return syscall(SYS_rt_sigaction, ROWEN_SIGNAL, NULL, &action, sizeof action.mask) == 0 &&
           action.handler == park_handler;
}

enum rowen_stop rowen_stop_all(const struct rowen_stopper *stopper, bool (*abandon)(void)) {
    /* Opened every time: an application may close descriptors that it does not know. */
    int tasks = rowen_threads_open();
    if (tasks < 0 || !handler_is_ours()) {
        atomic_fetch_add(&hold, 1);
        if (tasks >= 0) close(tasks);
        return tasks < 0 ? ROWEN_ABANDONED : ROWEN_UNSTOPPABLE;
    }
    bool done = park_threads(stopper, tasks, abandon);
    close(tasks);
    return done ? ROWEN_STOPPED : ROWEN_ABANDONED;
}

void rowen_go_all(void) {
    atomic_fetch_add(&hold, 1);
    rowen_wake(&hold, false);
}
