#define _GNU_SOURCE
#include "memory/arena/range.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/file.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define RETRIES 8

static char *address(const struct rowen_range *range, uint32_t handle) {
    return range->base + handle * range->handle_bytes;
}

static uint64_t offset(const struct rowen_range *range, uint32_t handle) { return handle * range->handle_bytes; }

bool rowen_range_is_ours(const struct rowen_range_file *file) {
    struct stat info;
    return fstat(file->fd, &info) == 0 && info.st_dev == file->device && info.st_ino == file->inode;
}

/* System calls, since another library may have put functions that allocate or lock in front of the C library's. A child
 * after fork() does not get the addresses: it is behind a gate of its own, and nobody would quarantine them there. */
static int32_t lead(const struct rowen_range *range, uint32_t handle, const struct rowen_range_file *file,
                    uint64_t from) {
    if (!rowen_range_is_ours(file)) return -EBADF;
    char *at = address(range, handle);
    long mapped = syscall(SYS_mmap, at, range->handle_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file->fd, from);
    if (mapped == -1) return -errno;
    return syscall(SYS_madvise, at, range->handle_bytes, MADV_DONTFORK) == 0 ? 0 : -errno;
}

int32_t rowen_range_map(const struct rowen_range *range, uint32_t handle) {
    return lead(range, handle, &range->memory, offset(range, handle));
}

int32_t rowen_range_quarantine(const struct rowen_range *range, uint32_t handle) {
    return lead(range, handle, &range->quarantine, 0);
}

int32_t rowen_range_populate(const struct rowen_range *range, uint32_t handle) {
    for (int attempt = 0; attempt < RETRIES; attempt++) {
        if (syscall(SYS_madvise, address(range, handle), range->handle_bytes, MADV_POPULATE_WRITE) == 0) return 0;
        if (errno != EINTR && errno != EAGAIN) break;
    }
    if (errno != EINVAL) return -errno;
    if (!rowen_range_is_ours(&range->memory)) return -EBADF;
    return syscall(SYS_fallocate, range->memory.fd, FALLOC_FL_KEEP_SIZE, offset(range, handle), range->handle_bytes) == 0
               ? 0
               : -errno;
}

void rowen_range_punch(const struct rowen_range *range, uint32_t handle) {
    if (rowen_range_is_ours(&range->memory)) rowen_memory_punch(range->memory.fd, offset(range, handle), range->handle_bytes);
}

int32_t rowen_range_hold(struct rowen_range_file *file, int fd) {
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) return -errno;
    *file = (struct rowen_range_file){fd, info.st_dev, info.st_ino};
    return 0;
}

/* All of the page is there from the start: no later access to it can find the pod's memory used up. */
static int32_t make_quarantine(struct rowen_range *range) {
    int fd = rowen_memory_make("rowen-quarantine", range->handle_bytes, false);
    if (fd < 0) return fd;
    range->quarantine.fd = fd;
    if (syscall(SYS_fallocate, fd, 0, 0, range->handle_bytes) != 0) return -errno;
    return rowen_range_hold(&range->quarantine, fd);
}

/* Reserves addresses that begin at a multiple of a handle's length. */
static char *reserve(uint64_t handle_bytes, uint64_t bytes) {
    char *all = mmap(NULL, bytes + handle_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return NULL;
    uint64_t before = -(uintptr_t)all & (handle_bytes - 1);
    if (before) munmap(all, before);
    munmap(all + before + bytes, handle_bytes - before);
    return all + before;
}

static int32_t open_range(struct rowen_range *range, int memory_fd) {
    range->huge = rowen_memory_page_bytes(memory_fd) > (uint64_t)sysconf(_SC_PAGE_SIZE);
    range->memory.fd = fcntl(memory_fd, F_DUPFD_CLOEXEC, 3);
    int32_t error = rowen_range_hold(&range->memory, range->memory.fd);
    if (error == 0) error = make_quarantine(range);
    if (error) return error;
    range->base = reserve(range->handle_bytes, range->handles * range->handle_bytes);
    if (!range->base) return -ENOMEM;
    for (uint32_t handle = 0; handle < range->handles && error == 0; handle++)
        error = rowen_range_quarantine(range, handle);
    return error;
}

int32_t rowen_range_open(struct rowen_range *range, int memory_fd, uint64_t handle_bytes, uint32_t handles) {
    *range = (struct rowen_range){.handle_bytes = handle_bytes, .handles = handles};
    range->memory.fd = range->quarantine.fd = -1;
    int32_t error = open_range(range, memory_fd);
    if (error) rowen_range_close(range);
    return error;
}

void rowen_range_close(struct rowen_range *range) {
    if (range->base) munmap(range->base, range->handles * range->handle_bytes);
    if (range->memory.fd >= 0) close(range->memory.fd);
    if (range->quarantine.fd >= 0) close(range->quarantine.fd);
}
