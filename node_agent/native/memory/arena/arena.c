/* A handle's states and its mapping, step by step; P is the calling thread, which may be parked after each step.
 *
 *   map      1 notes that the address may lead to the memory   3 FREE -> HELD                5 populates the address
 *            2 maps the memory                                 4 reads the grant once more
 *   unmap    1 maps the quarantine page   2 punches   3 forgets the note   4 HELD or TAKEN -> FREE
 *
 * The agent takes what is HELD and nothing else; then the control thread does unmap's steps 1 to 3 for what is TAKEN.
 *
 *   P parked before map's 3      the handle is FREE: not taken.
 *   P parked after 3             step 5 populates the quarantine page, as the address leads there; map() counts the
 *                                handle as mapped and lost() tells of it.
 *   P inside the kernel, in 5    the kernel may go on filling the hole after the agent has punched it, until the control
 *                                thread's mapping has replaced this one; that thread punches after it.
 *   P parked in unmap            both do the same steps, each of which may be done twice. If P gets to 4 first the
 *                                agent finds the handle FREE.
 *   The grant falls after 4      P's HELD is there already, and the agent counts it: it reads the states after it has
 *                                written the grant, P writes the state before it reads the grant.
 */
#define _GNU_SOURCE
#include "memory/arena/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/arena/range.h"
#include "memory/arena/room.h"
#include "memory/file.h"

struct rowen_arena {
    struct rowen_arena_page *page;
    _Atomic uint32_t *state;
    struct rowen_range range;
    struct rowen_range_file page_file;
    struct rowen_range_file ledger;
    _Atomic uint32_t *events; /* NULL: nobody's */
    pthread_mutex_t raising;  /* an engine's own grant; of its threads, which nobody parks */
    _Atomic bool alone;
    pid_t process;
    _Atomic uint32_t quarantined; /* `taken`, when all that was taken had been quarantined */
    _Atomic uint8_t *may_lead;    /* per handle: to its memory */
    uint8_t *named;               /* per handle; of check() alone */
};

static bool fits(const struct rowen_arena_page *page, uint64_t page_bytes, uint64_t memory_bytes, uint64_t unit) {
    uint32_t size = atomic_load(&page->size), capacity = atomic_load(&page->capacity);
    uint64_t handle_bytes = atomic_load(&page->handle_bytes);
    return atomic_load(&page->magic) == ROWEN_ARENA_MAGIC && size >= ROWEN_ARENA_LEAST && size <= ROWEN_ARENA_MOST &&
           size % sizeof(uint32_t) == 0 &&
           capacity > 0 && capacity <= ROWEN_ARENA_CAPACITY && size + capacity * sizeof(uint32_t) <= page_bytes &&
           unit > 0 && handle_bytes >= unit && (handle_bytes & (handle_bytes - 1)) == 0 &&
           memory_bytes / handle_bytes >= capacity;
}

/* Maps the page; *bytes is its length. */
static struct rowen_arena_page *map_page(int arena_fd, int memory_fd, uint64_t *bytes, int32_t *error) {
    uint64_t memory_bytes;
    *error = -EPERM;
    if (!rowen_memory_sealed(arena_fd, bytes) || !rowen_memory_sealed(memory_fd, &memory_bytes)) return NULL;
    *error = -EPROTO;
    if (*bytes < ROWEN_ARENA_LEAST) return NULL;
    struct rowen_arena_page *page = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd, 0);
    if (page == MAP_FAILED) {
        *error = -errno;
        return NULL;
    }
    if (fits(page, *bytes, memory_bytes, rowen_memory_page_bytes(memory_fd))) return page;
    munmap(page, *bytes);
    return NULL;
}

static int32_t open_arena(struct rowen_arena *arena, int arena_fd, int memory_fd) {
    uint32_t capacity = atomic_load(&arena->page->capacity);
    arena->state = (_Atomic uint32_t *)((char *)arena->page + atomic_load(&arena->page->size));
    arena->process = getpid();
    pthread_mutex_init(&arena->raising, NULL);
    arena->may_lead = calloc(capacity, sizeof *arena->may_lead);
    arena->named = calloc(capacity, sizeof *arena->named);
    if (!arena->may_lead || !arena->named) return -ENOMEM;
    int32_t error = rowen_range_hold(&arena->page_file, fcntl(arena_fd, F_DUPFD_CLOEXEC, 3));
    if (error) return error;
    return rowen_range_open(&arena->range, memory_fd, atomic_load(&arena->page->handle_bytes), capacity);
}

struct rowen_arena *rowen_arena_open(int32_t arena_fd, int32_t memory_fd, int32_t *error) {
    uint64_t bytes;
    struct rowen_arena_page *page = map_page(arena_fd, memory_fd, &bytes, error);
    if (!page) return NULL;
    struct rowen_arena *arena = calloc(1, sizeof *arena);
    *error = -ENOMEM;
    if (arena) {
        arena->page = page;
        arena->page_file.fd = arena->ledger.fd = -1;
        *error = open_arena(arena, arena_fd, memory_fd);
        if (*error == 0) return arena;
        if (arena->page_file.fd >= 0) close(arena->page_file.fd);
        free((void *)arena->may_lead);
        free(arena->named);
        free(arena);
    }
    munmap(page, bytes);
    return NULL;
}

void *rowen_arena_base(const struct rowen_arena *arena) { return arena->range.base; }
uint64_t rowen_arena_handle_bytes(const struct rowen_arena *arena) { return arena->range.handle_bytes; }
uint32_t rowen_arena_capacity(const struct rowen_arena *arena) { return arena->range.handles; }
uint32_t rowen_arena_grant(const struct rowen_arena *arena) { return atomic_load(&arena->page->grant); }
uint32_t rowen_arena_taken(const struct rowen_arena *arena) { return atomic_load(&arena->page->taken); }

static bool is_ours(const struct rowen_arena *arena) { return arena->process == getpid(); }

static uint32_t count_held(const struct rowen_arena *arena) {
    uint32_t held = 0;
    for (uint32_t handle = 0; handle < arena->range.handles; handle++)
        held += atomic_load_explicit(&arena->state[handle], memory_order_relaxed) == ROWEN_HANDLE_HELD;
    return held;
}

/* Whether all are in range, named once and free, or all mapped; what was taken and not told of counts as mapped. */
static bool check(struct rowen_arena *arena, const uint32_t *handles, uint32_t count, bool unmapped) {
    uint32_t n = 0;
    for (; n < count; n++) {
        uint32_t handle = handles[n];
        if (handle >= arena->range.handles || arena->named[handle]) break;
        if ((atomic_load(&arena->state[handle]) == ROWEN_HANDLE_FREE) != unmapped) break;
        arena->named[handle] = 1;
    }
    for (uint32_t i = 0; i < n; i++) arena->named[handles[i]] = 0;
    return n == count;
}

/* Leads the address to the quarantine page and gives the memory back. */
static int32_t part(struct rowen_arena *arena, uint32_t handle) {
    if (!atomic_load(&arena->may_lead[handle])) return 0;
    int32_t error = rowen_range_quarantine(&arena->range, handle);
    rowen_range_punch(&arena->range, handle);
    if (error == 0) atomic_store(&arena->may_lead[handle], 0);
    return error;
}

/* Where the mapping cannot be replaced, as there are too many, a late access may fill the hole; the agent counts it. */
static void give_back(struct rowen_arena *arena, uint32_t handle) {
    part(arena, handle);
    atomic_store(&arena->state[handle], ROWEN_HANDLE_FREE);
}

/* False, and the handle is free again: the grant has fallen below what would be held then, or there is no memory. */
static bool obtain(struct rowen_arena *arena, uint32_t handle, uint32_t held) {
    atomic_store(&arena->may_lead[handle], 1);
    int32_t error = rowen_range_map(&arena->range, handle);
    if (error == 0) {
        atomic_store(&arena->state[handle], ROWEN_HANDLE_HELD);
        error = atomic_load(&arena->page->grant) > held ? rowen_range_populate(&arena->range, handle) : -EAGAIN;
    }
    if (error) {
        give_back(arena, handle);
        return false;
    }
    /* The memory was given to the handle itself, perhaps after it had been taken. */
    if (atomic_load(&arena->state[handle]) != ROWEN_HANDLE_HELD) rowen_range_punch(&arena->range, handle);
    return true;
}

/* How many of `count` more handles the grant and the pod's memory allow. */
static uint32_t allowed(const struct rowen_arena *arena, uint32_t held, uint32_t count) {
    uint32_t grant = atomic_load(&arena->page->grant);
    uint32_t most = grant > held ? grant - held : 0;
    if (count > most) count = most;
    if (count == 0 || arena->range.huge) return count;
    uint64_t bytes = arena->range.handle_bytes;
    return (uint32_t)(rowen_room(count * bytes) / bytes);
}

int32_t rowen_arena_map(struct rowen_arena *arena, const uint32_t *handles, uint32_t count) {
    if (!is_ours(arena)) return -EPERM;
    if (!check(arena, handles, count, true)) return -EINVAL;
    uint32_t held = count_held(arena);
    uint32_t most = allowed(arena, held, count), n = 0;
    while (n < most && obtain(arena, handles[n], held + n)) n++;
    atomic_store(&arena->page->held, count_held(arena));
    return (int32_t)n;
}

int32_t rowen_arena_unmap(struct rowen_arena *arena, const uint32_t *handles, uint32_t count) {
    if (!is_ours(arena)) return -EPERM;
    if (!check(arena, handles, count, false)) return -EINVAL;
    for (uint32_t i = 0; i < count; i++) give_back(arena, handles[i]);
    atomic_store(&arena->page->held, count_held(arena));
    return 0;
}

int32_t rowen_arena_lost(struct rowen_arena *arena, uint32_t *handles) {
    if (!is_ours(arena)) return -EPERM;
    uint32_t n = 0;
    for (uint32_t handle = 0; handle < arena->range.handles; handle++) {
        if (atomic_load(&arena->state[handle]) != ROWEN_HANDLE_TAKEN) continue;
        give_back(arena, handle);
        handles[n++] = handle;
    }
    if (n) atomic_store(&arena->page->held, count_held(arena));
    return (int32_t)n;
}

static void say(struct rowen_arena *arena, _Atomic uint32_t *word, uint32_t handles) {
    if (atomic_exchange(word, handles) >= handles || !arena->events) return;
    atomic_fetch_add(arena->events, 1);
    rowen_wake(arena->events, true);
}

void rowen_arena_tell(struct rowen_arena *arena, _Atomic uint32_t *events) { arena->events = events; }

int32_t rowen_arena_take_ledger(struct rowen_arena *arena, int32_t ledger_fd) {
    return rowen_range_hold(&arena->ledger, fcntl(ledger_fd, F_DUPFD_CLOEXEC, 3));
}

int32_t rowen_arena_ledger(const struct rowen_arena *arena) {
    if (arena->ledger.fd < 0) return -ENODEV;
    return rowen_range_is_ours(&arena->ledger) ? arena->ledger.fd : -EBADF;
}

int32_t rowen_arena_files(const struct rowen_arena *arena, int *files) {
    if (!rowen_range_is_ours(&arena->page_file) || !rowen_range_is_ours(&arena->range.memory)) return -EBADF;
    files[0] = arena->page_file.fd;
    files[1] = arena->range.memory.fd;
    files[2] = rowen_arena_ledger(arena);
    return files[2] >= 0 ? 3 : 2;
}

void rowen_arena_orphan(struct rowen_arena *arena) { atomic_store(&arena->page->grant, 0); }

bool rowen_arena_behind(const struct rowen_arena *arena) {
    return atomic_load(&arena->page->taken) != atomic_load(&arena->quarantined);
}

/* Not beyond the moment in which an agent may have written the grant: under the lock that ends being alone. */
static void raise_grant(struct rowen_arena *arena) {
    pthread_mutex_lock(&arena->raising);
    uint32_t want = atomic_load(&arena->page->want);
    if (want > arena->range.handles) want = arena->range.handles;
    if (atomic_load(&arena->alone) && want > atomic_load(&arena->page->grant)) {
        atomic_store(&arena->page->grant, want);
        rowen_wake(&arena->page->grant, true);
    }
    pthread_mutex_unlock(&arena->raising);
}

bool rowen_arena_alone(struct rowen_arena *arena, bool alone) {
    pthread_mutex_lock(&arena->raising);
    bool was = atomic_exchange(&arena->alone, alone);
    pthread_mutex_unlock(&arena->raising);
    if (alone) raise_grant(arena);
    return was != alone;
}

void rowen_arena_want(struct rowen_arena *arena, uint32_t handles) {
    if (!is_ours(arena)) return;
    say(arena, &arena->page->want, handles);
    if (atomic_load(&arena->alone)) raise_grant(arena);
}

void rowen_arena_use(struct rowen_arena *arena, uint32_t handles) {
    if (is_ours(arena)) say(arena, &arena->page->used, handles);
}

bool rowen_arena_wait(const struct rowen_arena *arena, uint32_t grant, uint64_t timeout_ns) {
    uint64_t end = rowen_now() + timeout_ns;
    for (;;) {
        uint32_t seen = atomic_load(&arena->page->grant);
        uint64_t now = rowen_now();
        if (seen >= grant) return true;
        if (now >= end) return false;
        rowen_wait(&arena->page->grant, seen, end - now, true);
    }
}

int32_t rowen_arena_quarantine(struct rowen_arena *arena) {
    uint32_t taken = atomic_load(&arena->page->taken);
    if (taken == atomic_load(&arena->quarantined) || !is_ours(arena)) return 0;
    int32_t failed = 0;
    for (uint32_t handle = 0; handle < arena->range.handles; handle++) {
        if (atomic_load(&arena->state[handle]) != ROWEN_HANDLE_TAKEN) continue;
        int32_t error = part(arena, handle);
        if (error) failed = error;
    }
    if (failed == 0) atomic_store(&arena->quarantined, taken);
    return failed;
}
