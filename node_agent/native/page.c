#define _GNU_SOURCE
#include "page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the futex word is the low half of the gate word");
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* The kernel's struct futex_waitv; headers may be older than the kernel. */
struct waiter {
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};
#define WAIT_32_SHARED 2u

_Static_assert(sizeof(struct rowen_device_page) < (1u << 20), "device page size");

uint32_t rowen_abi_version(void) { return ROWEN_ABI_VERSION; }

uint64_t rowen_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * ROWEN_SECOND + (uint64_t)time.tv_nsec;
}

_Atomic uint32_t *rowen_gate_futex(struct rowen_device_page *page) { return (_Atomic uint32_t *)&page->gate; }

void rowen_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns, bool shared) {
    struct timespec timeout = {(time_t)(timeout_ns / ROWEN_SECOND), (long)(timeout_ns % ROWEN_SECOND)};
    syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, &timeout, NULL, 0);
}

void rowen_wait_any(_Atomic uint32_t *const *words, const uint32_t *values, uint32_t count, uint64_t timeout_ns) {
    if (count == 1) {
        rowen_wait(words[0], values[0], timeout_ns, true);
        return;
    }
    struct waiter waiters[ROWEN_TENANT_DEVICES];
    for (uint32_t i = 0; i < count; i++)
        waiters[i] = (struct waiter){.value = values[i], .address = (uintptr_t)words[i], .flags = WAIT_32_SHARED};
    uint64_t end = rowen_now() + timeout_ns;
    struct timespec until = {(time_t)(end / ROWEN_SECOND), (long)(end % ROWEN_SECOND)};
    if (syscall(SYS_futex_waitv, waiters, count, 0, &until, CLOCK_MONOTONIC) >= 0) return;
    if (errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR) return;
    rowen_wait(words[0], values[0], timeout_ns < ROWEN_MS ? timeout_ns : ROWEN_MS, true);
}

void rowen_wake(_Atomic uint32_t *word, bool shared) {
    syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

bool rowen_close_gate(struct rowen_device_page *page, bool busy) {
    const uint64_t one_busy = 1ull << 32;
    uint64_t now = rowen_now();
    uint64_t seen = atomic_load(&page->gate);
    uint64_t next;
    bool was_open;
    do {
        was_open = !rowen_closed((uint32_t)seen);
        if (!was_open && !busy) return false;
        /* Open means even: adding one cannot carry into the high half. */
        next = seen + (was_open ? 1 : 0) + (busy ? one_busy : 0);
    } while (!atomic_compare_exchange_weak(&page->gate, &seen, next));
    if (!was_open) return false;
    atomic_store(&page->closed_at_ns, now);
    rowen_wake(rowen_gate_futex(page), true);
    return true;
}

uint64_t rowen_gap(const struct rowen_device_page *page, uint64_t now_ns) {
    uint64_t now = now_ns / ROWEN_SECOND;
    uint64_t largest = 0;
    for (int i = 0; i < ROWEN_GAP_BUCKETS; i++) {
        uint64_t bucket = atomic_load((_Atomic uint64_t *)&page->gap_buckets[i]);
        uint64_t gap = bucket & UINT32_MAX;
        if ((bucket >> 32) + ROWEN_GAP_SECONDS > now && gap > largest) largest = gap;
    }
    return largest * 1000;
}

void *rowen_map(int fd, size_t size, uint64_t magic, bool writable, int *error) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        *error = -errno;
        return NULL;
    }
    if ((size_t)info.st_size < 16) {
        *error = -EPROTO;
        return NULL;
    }
    size_t mapped = (size_t)info.st_size < size ? (size_t)info.st_size : size;
    void *memory = mmap(NULL, mapped, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        *error = -errno;
        return NULL;
    }
    /* Both kinds of page begin with magic, version, size. */
    struct rowen_tenant_page *header = memory;
    if (mapped < size || atomic_load(&header->magic) != magic || atomic_load(&header->version) != ROWEN_ABI_VERSION ||
        atomic_load(&header->size) != size) {
        munmap(memory, mapped);
        *error = -EPROTO;
        return NULL;
    }
    return memory;
}

bool rowen_lock(int fd, off_t byte) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_SETLK, &lock) == 0;
}

void rowen_unlock(int fd, off_t byte) {
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    fcntl(fd, F_SETLK, &lock);
}

pid_t rowen_lock_owner(int fd, off_t byte) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, F_GETLK, &lock) != 0) return -1;
    if (lock.l_type == F_UNLCK) return 0;
    return lock.l_pid > 0 ? lock.l_pid : -1;
}

bool rowen_read(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    if (length <= 0) return false;
    text[length] = 0;
    return true;
}

const char *rowen_stat(const char *path, char *text, size_t size) {
    if (!rowen_read(path, text, size)) return NULL;
    /* The name may hold anything; it ends with the last bracket. */
    const char *end = strrchr(text, ')');
    return end ? end : "";
}
