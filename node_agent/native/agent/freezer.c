/* A pod's cgroup: the files of both versions, and walks over what is below it. */
#define _GNU_SOURCE
#include "agent/freezer.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MOST_LISTED 1024 /* of one cgroup that are killed in one pass */
#define MOST_HANDLES 64  /* open at once */
#define MOST_PASSES 4

static int32_t open_file(int directory, const char *name, int flags) {
    int fd = openat(directory, name, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The version of the hierarchy that the directory belongs to; -EINVAL: none. */
static int32_t version_of(int directory) {
    struct statfs info;
    if (fstatfs(directory, &info) != 0) return -errno;
    if (info.f_type == CGROUP_SUPER_MAGIC) return 1;
    return info.f_type == CGROUP2_SUPER_MAGIC ? 2 : -EINVAL;
}

static int32_t open_v1(struct rowen_cgroup *cgroup, const char *cpuacct) {
    cgroup->request = open_file(cgroup->directory, "freezer.state", O_RDWR);
    if (cgroup->request < 0) return cgroup->request;
    cgroup->state = cgroup->request;
    int32_t directory = open_file(AT_FDCWD, cpuacct, O_RDONLY | O_DIRECTORY);
    if (directory < 0) return directory;
    int32_t version = version_of(directory);
    cgroup->usage = version == 1 ? open_file(directory, "cpuacct.usage_user", O_RDONLY) : -EINVAL;
    cgroup->system = version == 1 ? open_file(directory, "cpuacct.usage_sys", O_RDONLY) : -EINVAL;
    close(directory);
    if (cgroup->usage < 0) return cgroup->usage;
    return cgroup->system < 0 ? cgroup->system : 0;
}

static int32_t open_v2(struct rowen_cgroup *cgroup) {
    cgroup->request = open_file(cgroup->directory, "cgroup.freeze", O_WRONLY);
    if (cgroup->request < 0) return cgroup->request;
    cgroup->state = open_file(cgroup->directory, "cgroup.events", O_RDONLY);
    if (cgroup->state < 0) return cgroup->state;
    cgroup->usage = open_file(cgroup->directory, "cpu.stat", O_RDONLY);
    if (cgroup->usage < 0) return cgroup->usage;
    cgroup->kill = open_file(cgroup->directory, "cgroup.kill", O_WRONLY);
    if (cgroup->kill == -ENOENT) cgroup->kill = -1;
    return cgroup->kill < -1 ? cgroup->kill : 0;
}

/* Best effort: without these files the tree is stopped and let go as ever. */
static void open_limit(struct rowen_cgroup *cgroup, const char *cpu) {
    if (cgroup->version == 2) {
        cgroup->quota = open_file(cgroup->directory, "cpu.max", O_RDWR);
        cgroup->weight = open_file(cgroup->directory, "cpu.weight", O_RDWR);
    } else {
        int32_t directory = cpu ? open_file(AT_FDCWD, cpu, O_RDONLY | O_DIRECTORY) : -1;
        if (directory < 0) return;
        cgroup->quota = open_file(directory, "cpu.cfs_quota_us", O_RDWR);
        cgroup->period = open_file(directory, "cpu.cfs_period_us", O_RDWR);
        cgroup->weight = open_file(directory, "cpu.shares", O_RDWR);
        close(directory);
    }
    int32_t *opened[] = {&cgroup->quota, &cgroup->period, &cgroup->weight};
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++)
        if (*opened[i] < 0) *opened[i] = -1;
}

static const struct rowen_cgroup none = {-1, -1, -1, -1, -1, -1, 0, -1, -1, -1};

int32_t rowen_cgroup_open(struct rowen_cgroup *cgroup, const char *directory, const char *cpuacct, const char *cpu) {
    *cgroup = none;
    int32_t status = open_file(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (status < 0) return status;
    cgroup->directory = status;
    status = version_of(cgroup->directory);
    if (status > 0) {
        cgroup->version = (uint32_t)status;
        if ((cgroup->version == 1) != (cpuacct != NULL)) status = -EINVAL;
        else status = cgroup->version == 1 ? open_v1(cgroup, cpuacct) : open_v2(cgroup);
        if (status == 0) open_limit(cgroup, cpu);
    }
    if (status < 0) rowen_cgroup_close(cgroup);
    return status;
}

void rowen_cgroup_close(struct rowen_cgroup *cgroup) {
    if (cgroup->state == cgroup->request) cgroup->state = -1;
    const int32_t open[] = {cgroup->directory, cgroup->request, cgroup->state,  cgroup->usage, cgroup->system,
                            cgroup->kill,      cgroup->quota,   cgroup->period, cgroup->weight};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (open[i] >= 0) close(open[i]);
    *cgroup = none;
}

static int32_t put(int fd, const char *text) {
    return pwrite(fd, text, strlen(text), 0) < 0 ? -errno : 0;
}

/* The file's text, as far as it fits. */
static int32_t get(int fd, char *text, size_t size) {
    ssize_t length = pread(fd, text, size - 1, 0);
    if (length < 0) return -errno;
    text[length] = 0;
    return 0;
}

int32_t rowen_cgroup_freeze(const struct rowen_cgroup *cgroup) {
    return put(cgroup->request, cgroup->version == 1 ? "FROZEN" : "1");
}

int32_t rowen_cgroup_thaw(const struct rowen_cgroup *cgroup) {
    return put(cgroup->request, cgroup->version == 1 ? "THAWED" : "0");
}

int32_t rowen_cgroup_frozen(const struct rowen_cgroup *cgroup) {
    char text[256];
    int32_t status = get(cgroup->state, text, sizeof text);
    if (status < 0) return status;
    return strstr(text, cgroup->version == 1 ? "FROZEN" : "frozen 1") != NULL;
}

int32_t rowen_cgroup_requested(const struct rowen_cgroup *cgroup) {
    /* The file of the request itself is for writing, or says what holds from above, too. */
    const char *name = cgroup->version == 1 ? "freezer.self_freezing" : "cgroup.freeze";
    int32_t fd = open_file(cgroup->directory, name, O_RDONLY);
    if (fd < 0) return fd;
    char text[16];
    int32_t status = get(fd, text, sizeof text);
    close(fd);
    return status < 0 ? status : text[0] == '1';
}

int32_t rowen_cgroup_put_out(const struct rowen_cgroup *cgroup, int32_t pid) {
    int32_t fd = open_file(cgroup->directory, "../cgroup.procs", O_WRONLY);
    if (fd < 0) return fd;
    char text[16];
    snprintf(text, sizeof text, "%d", pid);
    int32_t status = put(fd, text);
    close(fd);
    return status;
}

static int32_t read_number(int fd, uint64_t *number) {
    char text[32];
    int32_t status = get(fd, text, sizeof text);
    if (status == 0) *number = strtoull(text, NULL, 10);
    return status;
}

/* A line of cpu.stat. */
static int32_t find_ns(const char *text, const char *name, uint64_t *ns) {
    const char *found = strstr(text, name);
    if (!found) return -EPROTO;
    *ns = strtoull(found + strlen(name), NULL, 10) * 1000;
    return 0;
}

int32_t rowen_cgroup_usage(const struct rowen_cgroup *cgroup, struct rowen_usage *usage) {
    if (cgroup->version == 1) {
        int32_t status = read_number(cgroup->usage, &usage->programs_ns);
        return status < 0 ? status : read_number(cgroup->system, &usage->calls_ns);
    }
    char text[1024];
    int32_t status = get(cgroup->usage, text, sizeof text);
    if (status == 0) status = find_ns(text, "user_usec ", &usage->programs_ns);
    return status < 0 ? status : find_ns(text, "system_usec ", &usage->calls_ns);
}

static bool gone(int32_t status) { return status == -ENOENT || status == -ENODEV; }

typedef int32_t (*visitor)(int directory, void *context);

/* Visits a cgroup and all below it, whatever fails; returns an error, if there was one. Below the first, a cgroup that
 * is removed meanwhile is none. */
static int32_t visit(int directory, uint32_t depth, visitor visitor, void *context) {
    int32_t status = visitor(directory, context);
    if (gone(status)) return status;
    int32_t fd = open_file(directory, ".", O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fd;
    DIR *entries = fdopendir(fd);
    if (!entries) {
        close(fd);
        return -ENOMEM;
    }
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
        int32_t child = depth == ROWEN_CGROUP_DEPTH ? -ELOOP : open_file(fd, entry->d_name, O_RDONLY | O_DIRECTORY);
        int32_t below = child < 0 ? child : visit(child, depth + 1, visitor, context);
        if (child >= 0) close(child);
        if (below < 0 && !gone(below)) status = below;
    }
    closedir(entries);
    return status;
}

struct listing {
    int32_t *pids;
    uint32_t capacity, count;
};

static void add(struct listing *listing, int32_t pid) {
    if (listing->count < listing->capacity) listing->pids[listing->count] = pid;
    listing->count++;
}

/* Adds the processes of one cgroup. The file is opened each time: with version 1 a descriptor that is read again may
 * give the list of a second ago. */
static int32_t list(int directory, void *context) {
    int32_t fd = open_file(directory, "cgroup.procs", O_RDONLY);
    if (fd < 0) return fd;
    char text[4096];
    ssize_t length;
    int32_t pid = -1;
    while ((length = read(fd, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < length; i++) {
            if (isdigit((unsigned char)text[i])) {
                pid = (pid < 0 ? 0 : pid) * 10 + (text[i] - '0');
            } else if (pid >= 0) {
                add(context, pid);
                pid = -1;
            }
        }
    int32_t status = length < 0 ? -errno : 0;
    close(fd);
    return status == -EOPNOTSUPP ? 0 : status; /* threads only: their processes are listed further up */
}

int32_t rowen_cgroup_processes(const struct rowen_cgroup *cgroup, int32_t *pids, uint32_t capacity) {
    struct listing listing = {pids, capacity, 0};
    int32_t status = visit(cgroup->directory, 0, list, &listing);
    return status < 0 ? status : (int32_t)listing.count;
}

static bool listed(const int32_t *pids, uint32_t count, int32_t pid) {
    for (uint32_t i = 0; i < count; i++)
        if (pids[i] == pid) return true;
    return false;
}

static uint32_t shorter(uint32_t count, uint32_t most) { return count < most ? count : most; }

static int32_t open_process(int32_t pid) {
    if (pid <= 0) return -ESRCH;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -errno : fd;
}

static int32_t send_kill(int handle) {
    return syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0) == 0 ? 0 : -errno;
}

/* Signals processes of one cgroup. A process that is listed after its handle was made is the one that the handle means,
 * or has got the id of one that has ended since: an outsider is never hit. */
static int32_t kill_batch(int directory, const int32_t *pids, uint32_t count) {
    int32_t now[MOST_LISTED], handles[MOST_HANDLES];
    struct listing still = {now, MOST_LISTED, 0};
    for (uint32_t i = 0; i < count; i++) handles[i] = open_process(pids[i]);
    int32_t status = list(directory, &still);
    uint32_t left = shorter(still.count, MOST_LISTED);
    for (uint32_t i = 0; i < count; i++) {
        int32_t sent = handles[i];
        if (sent >= 0 && listed(now, left, pids[i])) sent = send_kill(handles[i]);
        if (sent < 0 && sent != -ESRCH) status = sent;
        if (handles[i] >= 0) close(handles[i]);
    }
    return status;
}

static int32_t kill_all(int directory, void *context) {
    uint32_t *found = context;
    int32_t pids[MOST_LISTED];
    struct listing listing = {pids, MOST_LISTED, 0};
    int32_t status = list(directory, &listing);
    *found += listing.count;
    uint32_t count = shorter(listing.count, MOST_LISTED);
    for (uint32_t at = 0; at < count; at += MOST_HANDLES) {
        int32_t killed = kill_batch(directory, pids + at, shorter(count - at, MOST_HANDLES));
        if (killed < 0) status = killed;
    }
    return status;
}

static int32_t thaw_one(int directory, void *context) {
    (void)context;
    int32_t fd = open_file(directory, "freezer.state", O_WRONLY);
    if (fd < 0) return fd;
    int32_t status = put(fd, "THAWED");
    close(fd);
    return status;
}

/* A process with SIGKILL pending forks no more, and a frozen one does not either: one pass after the freeze finds all
 * but those that were being forked right then. */
static int32_t kill_each(const struct rowen_cgroup *cgroup) {
    int32_t status = rowen_cgroup_freeze(cgroup);
    if (status < 0) return status;
    uint32_t most = 0;
    for (int pass = 0; pass < MOST_PASSES; pass++) {
        uint32_t found = 0;
        status = visit(cgroup->directory, 0, kill_all, &found);
        if (found <= most) break;
        most = found;
    }
    int32_t thawed = cgroup->version == 1 ? visit(cgroup->directory, 0, thaw_one, NULL) : rowen_cgroup_thaw(cgroup);
    if (status < 0) return status;
    return thawed < 0 ? thawed : (int32_t)most;
}

int32_t rowen_cgroup_kill(const struct rowen_cgroup *cgroup) {
    if (cgroup->kill < 0) return kill_each(cgroup);
    int32_t found = rowen_cgroup_processes(cgroup, NULL, 0);
    if (found < 0 && found != -ELOOP) return found;
    int32_t status = put(cgroup->kill, "1");
    if (status == 0) status = rowen_cgroup_thaw(cgroup);
    return status < 0 ? status : found;
}
