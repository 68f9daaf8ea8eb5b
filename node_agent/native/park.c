/* Parking: every thread of the process but the control thread waits inside a signal handler.
 *
 * Threads are found in /proc/self/task. A thread that appears while others are being parked was made by one that
 * was not parked yet, so the listing is repeated until two in a row show nothing but parked threads.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tenant.h"

#define TABLE_SIZE 8192u /* threads per process that can be told apart; a power of two */
#define SLOW_NS (300 * 1000ull)
#define POLL_NS (200 * 1000ull)

/* Odd: hold. The handler waits on it. */
static _Atomic uint32_t hold;
/* Threads that have entered the handler in this hold; the control thread waits on it. */
static _Atomic uint32_t arrivals;
static _Atomic uint32_t expected;
/* Open addressing, tid << 32 | hold in which it parked; entries are replaced from older holds. */
static _Atomic uint64_t parked[TABLE_SIZE];

/* What the control thread alone knows of the threads it has dealt with in this hold. */
struct moved {
    pid_t tid;
    cpu_set_t cpus;
};
static struct moved moved[64];
static int moved_count;
static pid_t signalled[TABLE_SIZE];
static uint32_t signalled_hold[TABLE_SIZE];

static uint32_t bucket_of(pid_t tid) { return ((uint32_t)tid * 2654435761u) >> 19; }

_Static_assert(TABLE_SIZE == 1u << (32 - 19), "the hash yields an index of the table");

static void mark_parked(pid_t tid, uint32_t round) {
    uint64_t value = (uint64_t)(uint32_t)tid << 32 | round;
    for (uint32_t probe = 0; probe < TABLE_SIZE; probe++) {
        _Atomic uint64_t *entry = &parked[(bucket_of(tid) + probe) % TABLE_SIZE];
        uint64_t seen = atomic_load(entry);
        while ((uint32_t)seen != round || seen >> 32 == (uint32_t)tid)
            if (atomic_compare_exchange_weak(entry, &seen, value)) return;
    }
}

static bool is_parked(pid_t tid, uint32_t round) {
    uint64_t value = (uint64_t)(uint32_t)tid << 32 | round;
    for (uint32_t probe = 0; probe < TABLE_SIZE; probe++) {
        uint64_t seen = atomic_load(&parked[(bucket_of(tid) + probe) % TABLE_SIZE]);
        if (seen == value) return true;
        if ((uint32_t)seen != round) return false;
    }
    return false;
}

static void park_handler(int signal_number) {
    (void)signal_number;
    int saved = errno;
    for (;;) {
        uint32_t round = atomic_load(&hold);
        if (!(round & 1u)) break;
        pid_t tid = (pid_t)syscall(SYS_gettid);
        if (!is_parked(tid, round)) {
            mark_parked(tid, round);
            if (atomic_fetch_add(&arrivals, 1) + 1 >= atomic_load(&expected)) rowen_wake(&arrivals, false);
        }
        rowen_wait(&hold, round, 3600 * ROWEN_SECOND, false);
    }
    errno = saved;
}

int rowen_park_install(void) {
    struct sigaction action = {.sa_handler = park_handler, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    extern int rowen_real_sigaction(int, const struct sigaction *, struct sigaction *);
    if (rowen_real_sigaction(ROWEN_SIGNAL, &action, NULL) != 0) return -errno;
    uint64_t mask = 1ull << (ROWEN_SIGNAL - 1);
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, NULL, sizeof mask);
    return 0;
}

void rowen_park_reset(void) {
    atomic_store(&hold, 0);
    atomic_store(&arrivals, 0);
    memset(parked, 0, sizeof parked);
    memset(signalled_hold, 0, sizeof signalled_hold);
    moved_count = 0;
}

/* True once per thread and hold. */
static bool first_time(pid_t tid, uint32_t round) {
    for (uint32_t probe = 0; probe < TABLE_SIZE; probe++) {
        uint32_t i = (bucket_of(tid) + probe) % TABLE_SIZE;
        if (signalled_hold[i] == round && signalled[i] != tid) continue;
        if (signalled_hold[i] == round) return false;
        signalled[i] = tid;
        signalled_hold[i] = round;
        return true;
    }
    return true;
}

/* The thread executes nothing: it is dead, stopped, or in uninterruptible sleep, after which the pending signal
 * comes first. A plain sleep does not count: ppoll() and its like may hold the signal off and then return. */
static bool is_inert(pid_t tid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return true;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return true;
    text[length] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] && strchr("DZXTt", name_end[2]);
}

/* A thread that waits for the device's CPU cannot run its handler: let it do so on another one. */
static void move_away(const struct rowen_parking *parking, pid_t tid) {
    if (moved_count == (int)(sizeof moved / sizeof moved[0])) return;
    for (int i = 0; i < moved_count; i++)
        if (moved[i].tid == tid) return;
    cpu_set_t others;
    CPU_ZERO(&others);
    long count = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < count && cpu < CPU_SETSIZE; cpu++)
        if (!(parking->device_cpus[cpu / 64] >> (cpu % 64) & 1)) CPU_SET(cpu, &others);
    struct moved *entry = &moved[moved_count];
    entry->tid = tid;
    if (CPU_COUNT(&others) == 0 || syscall(SYS_sched_getaffinity, tid, sizeof entry->cpus, &entry->cpus) < 0) return;
    if (syscall(SYS_sched_setaffinity, tid, sizeof others, &others) == 0) moved_count++;
}

struct pass {
    uint32_t threads; /* all but the control thread */
    bool clean;       /* all of them stopped */
};

static void visit(const struct rowen_parking *parking, pid_t tid, uint32_t round, bool slow, struct pass *pass) {
    pass->threads++;
    if (is_parked(tid, round)) return;
    if (first_time(tid, round)) {
        pass->clean = false;
        syscall(SYS_tgkill, getpid(), tid, ROWEN_SIGNAL);
    } else if (!slow) {
        pass->clean = false;
    } else if (!is_inert(tid)) {
        pass->clean = false;
        move_away(parking, tid);
    }
}

struct linux_dirent64 {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

static struct pass list_threads(const struct rowen_parking *parking, int tasks, uint32_t round, bool slow) {
    struct pass pass = {0, true};
    _Alignas(struct linux_dirent64) char buffer[8192];
    lseek(tasks, 0, SEEK_SET);
    for (;;) {
        long length = syscall(SYS_getdents64, tasks, buffer, sizeof buffer);
        if (length <= 0) break;
        for (long at = 0; at < length;) {
            const struct linux_dirent64 *entry = (const void *)(buffer + at);
            at += entry->length;
            pid_t tid = (pid_t)atoi(entry->name);
            if (tid > 0 && tid != parking->control_tid) visit(parking, tid, round, slow, &pass);
        }
    }
    return pass;
}

static bool park_threads(const struct rowen_parking *parking, int tasks, bool (*abandon)(void)) {
    uint32_t round = atomic_fetch_add(&hold, 1) + 1;
    uint64_t begin = rowen_now();
    for (int clean = 0;;) {
        uint32_t before = atomic_load(&arrivals);
        struct pass pass = list_threads(parking, tasks, round, rowen_now() - begin > SLOW_NS);
        clean = pass.clean ? clean + 1 : 0;
        if (clean == 2) return true;
        if (abandon()) return false;
        if (pass.clean) continue;
        atomic_store(&expected, pass.threads);
        uint32_t arrived = atomic_load(&arrivals);
        if (arrived < pass.threads) rowen_wait(&arrivals, arrived, POLL_NS, false);
        else if (arrived == before) rowen_wait(&arrivals, arrived, POLL_NS / 4, false);
        atomic_store(&expected, UINT32_MAX);
    }
}

bool rowen_park_all(const struct rowen_parking *parking, bool (*abandon)(void)) {
    atomic_store(&arrivals, 0);
    atomic_store(&expected, UINT32_MAX);
    moved_count = 0;
    /* Opened every time: an application may close descriptors that it does not know. */
    int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tasks < 0) {
        atomic_fetch_add(&hold, 1);
        return false;
    }
    bool done = park_threads(parking, tasks, abandon);
    close(tasks);
    return done;
}

void rowen_unpark_all(void) {
    for (int i = 0; i < moved_count; i++)
        syscall(SYS_sched_setaffinity, moved[i].tid, sizeof moved[i].cpus, &moved[i].cpus);
    moved_count = 0;
    atomic_fetch_add(&hold, 1);
    rowen_wake(&hold, false);
}
