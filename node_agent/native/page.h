/* Helpers that all sides share: clock, futex, shared pages, record locks. */
#ifndef ROWEN_PAGE_H
#define ROWEN_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "rowen_abi.h"

#define ROWEN_MS 1000000ull
#define ROWEN_SECOND 1000000000ull

uint64_t rowen_now(void);

static inline bool rowen_closed(uint32_t gate) { return gate & 1u; }

/* The low half of the gate word, which is what futexes compare. */
static inline uint32_t rowen_gate(const struct rowen_device_page *page) {
    return (uint32_t)atomic_load((_Atomic uint64_t *)&page->gate);
}
_Atomic uint32_t *rowen_gate_futex(struct rowen_device_page *page);

/* Waits while *word == value, at most timeout_ns. Shared futexes work across processes and on read-only mappings. */
void rowen_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns, bool shared);
/* Waits while each of at most ROWEN_TENANT_DEVICES shared words has its value. Without futex_waitv() (Linux 5.16) it
 * may return up to 1 ms early, and a change of any but the first word is noticed that much later. */
void rowen_wait_any(_Atomic uint32_t *const *words, const uint32_t *values, uint32_t count, uint64_t timeout_ns);
void rowen_wake(_Atomic uint32_t *word, bool shared);

/* Closes an open gate and stamps it; true if this call closed it. `busy` adds to the count of busy calls. */
bool rowen_close_gate(struct rowen_device_page *page, bool busy);

/* Largest decode gap of the last ROWEN_GAP_SECONDS, in nanoseconds. */
uint64_t rowen_gap(const struct rowen_device_page *page, uint64_t now_ns);

/* Maps a page file and checks magic and version. Returns NULL and sets *error (-errno; -EPROTO: other version). */
void *rowen_map(int fd, size_t size, uint64_t magic, bool writable, int *error);

/* Record locks on one byte of a page file. */
bool rowen_lock(int fd, off_t byte);
void rowen_unlock(int fd, off_t byte);
/* The process that holds the lock, in the caller's PID namespace; 0: none; -1: one that the caller cannot see. */
pid_t rowen_lock_owner(int fd, off_t byte);

/* Reads a file of /proc into `text`, as far as it fits; false if it cannot be read. */
bool rowen_read(const char *path, char *text, size_t size);
/* Reads a stat file of /proc into `text`; returns where the name ends, with a bracket. NULL: the thread is gone. */
const char *rowen_stat(const char *path, char *text, size_t size);

/* Gives a thread (0: the caller) the best priority that the kernel grants; returns its policy: SCHED_FIFO,
 * SCHED_DEADLINE (6), or SCHED_OTHER with the best niceness; -errno when not even that. */
ROWEN_API int32_t rowen_raise(int32_t tid);

#endif
