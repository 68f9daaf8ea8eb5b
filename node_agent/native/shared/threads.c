#define _GNU_SOURCE
#include "shared/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct linux_dirent64 {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

int rowen_threads_open(void) {
    int threads = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return threads < 0 ? -errno : threads;
}

void rowen_threads_visit(int threads, void (*visit)(pid_t tid, void *context), void *context) {
    _Alignas(struct linux_dirent64) char buffer[8192];
    lseek(threads, 0, SEEK_SET);
    for (;;) {
        long length = syscall(SYS_getdents64, threads, buffer, sizeof buffer);
        if (length <= 0) return;
        for (long at = 0; at < length;) {
            const struct linux_dirent64 *entry = (const void *)(buffer + at);
            at += entry->length;
            pid_t tid = (pid_t)atoi(entry->name);
            if (tid > 0) visit(tid, context);
        }
    }
}

struct pinning {
    const cpu_set_t *cpus;
    pid_t except;
    int32_t error;
};

static void pin(pid_t tid, void *context) {
    struct pinning *pinning = context;
    if (tid == pinning->except) return;
    if (sched_setaffinity(tid, sizeof *pinning->cpus, pinning->cpus) != 0 && errno != ESRCH) pinning->error = -errno;
}

int32_t rowen_threads_pin(const cpu_set_t *cpus, pid_t except) {
    struct pinning pinning = {cpus, except, 0};
    int threads = rowen_threads_open();
    if (threads < 0) return threads;
    rowen_threads_visit(threads, pin, &pinning);
    close(threads);
    return pinning.error;
}
