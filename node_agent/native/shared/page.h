/* Helpers that all sides share: clock, futex, shared files. */
#ifndef ROWEN_PAGE_H
#define ROWEN_PAGE_H

#include <pthread.h>
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
    return (uint32_t)atomic_load((_Atomic uint64_t *)&page->block.gate);
}
_Atomic uint32_t *rowen_gate_futex(struct rowen_device_page *page);

/* Waits while *word == value, at most timeout_ns. Shared futexes work across processes and on read-only mappings. */
void rowen_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns, bool shared);
/* Waits while each of at most ROWEN_TENANT_DEVICES shared words has its value. Without futex_waitv() (Linux 5.16) it
 * may return up to 1 ms early, and a change of any but the first word is noticed that much later. */
void rowen_wait_any(_Atomic uint32_t *const *words, const uint32_t *values, uint32_t count, uint64_t timeout_ns);
void rowen_wake(_Atomic uint32_t *word, bool shared);

/* Closes an open gate, stamps it and wakes who follows it; true if this call closed it. `busy` adds to the count of busy
 * calls. */
bool rowen_close_gate(struct rowen_device_page *page, bool busy);
/* As above, and leaves the waking to the caller. */
bool rowen_shut_gate(struct rowen_device_page *page, bool busy);

/* Maps a sealed file whose structure has `size` bytes here; where the file ends earlier, zeros of the caller's own
 * follow. `over`: an earlier mapping of that size whose place it takes, so that pointers into it stay good; or NULL.
 * Returns NULL and sets *error: -EPERM: the file could be cut short under its mapping; -EPROTO: no such file. */
void *rowen_map(int fd, size_t size, uint64_t magic, bool writable, void *over, int *error);
void rowen_unmap(void *memory, size_t size);
/* A sealed file for a structure of `size` bytes, its head filled in; or -errno. */
int rowen_make_file(const char *name, size_t size, uint64_t magic);

static inline void rowen_composition_copy(struct rowen_composition *to, const struct rowen_composition *from) {
    atomic_store(&to->steps, atomic_load((_Atomic uint64_t *)&from->steps));
    atomic_store(&to->step_ns, atomic_load((_Atomic uint64_t *)&from->step_ns));
    atomic_store(&to->decode_rows, atomic_load((_Atomic uint64_t *)&from->decode_rows));
    atomic_store(&to->prefill_tokens, atomic_load((_Atomic uint64_t *)&from->prefill_tokens));
}

/* Reads a file of /proc into `text`, as far as it fits; false if it cannot be read. */
bool rowen_read(const char *path, char *text, size_t size);
/* Reads a stat file of /proc into `text`; returns where the name ends, with a bracket. NULL: the thread is gone. */
const char *rowen_stat(const char *path, char *text, size_t size);

/* Of real-time threads: an agent goes before the control threads of its tenants. */
#define ROWEN_AGENT_PRIORITY 3
#define ROWEN_CONTROL_PRIORITY 2

/* A lock that a thread of the device may have to wait for: whoever holds it inherits its priority. 0 or -errno. */
int rowen_make_lock(pthread_mutex_t *lock);
/* Gives a thread (0: the caller) the best priority that the kernel grants; returns its policy: SCHED_FIFO,
 * SCHED_DEADLINE (6), or SCHED_OTHER with the best niceness; -errno when not even that. */
ROWEN_API int32_t rowen_raise(int32_t tid);
/* Takes it back. 1: the thread had some, or a niceness below 0. 0: it had none, and keeps its niceness; or it is gone. */
ROWEN_API int32_t rowen_lower(int32_t tid);

#endif
