#define _GNU_SOURCE
#include "shared/page.h"

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

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

uint32_t rowen_abi_version(void) { return ROWEN_ABI; }

uint64_t rowen_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * ROWEN_SECOND + (uint64_t)time.tv_nsec;
}

_Atomic uint32_t *rowen_gate_futex(struct rowen_device_page *page) { return (_Atomic uint32_t *)&page->block.gate; }

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

bool rowen_shut_gate(struct rowen_device_page *page, bool busy) {
    const uint64_t one_busy = 1ull << 32;
    uint64_t now = rowen_now();
    uint64_t seen = atomic_load(&page->block.gate);
    uint64_t next;
    bool was_open;
    do {
        was_open = !rowen_closed((uint32_t)seen);
        if (!was_open && !busy) return false;
        /* Open means even: adding one cannot carry into the high half. */
        next = seen + (was_open ? 1 : 0) + (busy ? one_busy : 0);
    } while (!atomic_compare_exchange_weak(&page->block.gate, &seen, next));
    if (!was_open) return false;
    atomic_store(&page->block.closed_at_ns, now);
    return true;
}

bool rowen_close_gate(struct rowen_device_page *page, bool busy) {
    if (!rowen_shut_gate(page, busy)) return false;
    rowen_wake(rowen_gate_futex(page), true);
    return true;
}

static size_t whole_pages(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

/* Bytes of the file that may be mapped, or -errno. */
static ssize_t check_file(int fd, uint64_t magic) {
    struct stat info;
    if (fstat(fd, &info) != 0) return -errno;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS) return -EPERM;
    struct rowen_file_head head;
    if (pread(fd, &head, sizeof head, 0) != sizeof head) return -EPROTO;
    if (head.magic != magic || head.abi != ROWEN_ABI) return -EPROTO;
    return (ssize_t)whole_pages((size_t)info.st_size);
}

void *rowen_map(int fd, size_t size, uint64_t magic, bool writable, void *over, int *error) {
    ssize_t there = check_file(fd, magic);
    *error = there < 0 ? (int)there : 0;
    if (*error) return NULL;
    size_t mapped = whole_pages(size);
    void *memory = mmap(over, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (over ? MAP_FIXED : 0), -1, 0);
    size_t shared = (size_t)there < mapped ? (size_t)there : mapped;
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    if (memory != MAP_FAILED && mmap(memory, shared, protection, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED)
        return memory;
    *error = -errno;
    if (memory != MAP_FAILED && !over) munmap(memory, mapped);
    return NULL;
}

void rowen_unmap(void *memory, size_t size) { munmap(memory, whole_pages(size)); }

int rowen_make_file(const char *name, size_t size, uint64_t magic) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -errno;
    struct rowen_file_head head = {magic, ROWEN_ABI, (uint32_t)size};
    if (ftruncate(fd, (off_t)whole_pages(size)) == 0 && pwrite(fd, &head, sizeof head, 0) == sizeof head &&
        fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) == 0)
        return fd;
    int error = -errno;
    close(fd);
    return error;
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
