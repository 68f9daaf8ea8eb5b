#define _GNU_SOURCE
#include "memory/ledger/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/file.h"

#define NONE UINT32_MAX

/* Chunks form a chain per owner, from the newest back; all but the newest are full. */
struct owner {
    uint64_t *has; /* a bit per handle */
    uint32_t newest;
    uint32_t filled;  /* handles in the newest chunk */
    uint32_t unknown; /* handles that found no place in the table */
};

/* Chains and counts are the process's own: the shared file holds only what the agent needs. */
struct rowen_ledger {
    pid_t process;
    void *file;
    size_t bytes;
    uint32_t capacity;
    uint32_t places; /* owners that the table has room for */
    uint32_t chunk_count;
    _Atomic uint32_t *used;
    _Atomic uint32_t *tokens;
    _Atomic uint64_t *unknown;
    struct rowen_ledger_chunk *chunks;

    uint32_t *before;  /* per chunk: the one before it, of the same owner or among the empty ones */
    uint32_t empty;    /* first of the chunks that were used and are empty again */
    uint32_t *strange; /* per handle: how many owners have it as unknown */
    uint64_t *leaving; /* a bit per handle; clear between calls */
    struct owner *owners;
    uint32_t owner_count;
};

static bool within_limits(uint32_t capacity, uint32_t owners) {
    return capacity >= 1 && capacity <= ROWEN_LEDGER_CAPACITY_MAX && owners >= 1 && owners <= ROWEN_LEDGER_OWNERS_MAX;
}

int32_t rowen_ledger_make(uint32_t capacity, uint32_t owners) {
    if (!within_limits(capacity, owners)) return -EINVAL;
    struct rowen_ledger_page page = {.magic = ROWEN_LEDGER_MAGIC,
                                     .size = sizeof page,
                                     .capacity = capacity,
                                     .owners = owners,
                                     .chunks = rowen_ledger_chunks(capacity, owners)};
    size_t bytes = rowen_ledger_layout(sizeof page, capacity, owners, page.chunks).end;
    int fd = rowen_memory_make("rowen-ledger", bytes, false);
    if (fd < 0 || pwrite(fd, &page, sizeof page, 0) == (ssize_t)sizeof page) return fd;
    close(fd);
    return -EIO;
}

/* Finds the parts that the header tells of and empties them. */
static int32_t lay_out(struct rowen_ledger *ledger) {
    struct rowen_ledger_page *page = ledger->file;
    size_t size = atomic_load(&page->size);
    ledger->capacity = atomic_load(&page->capacity);
    ledger->places = atomic_load(&page->owners);
    ledger->chunk_count = atomic_load(&page->chunks);
    if (atomic_load(&page->magic) != ROWEN_LEDGER_MAGIC || size < sizeof *page || size > ledger->bytes ||
        !within_limits(ledger->capacity, ledger->places))
        return -EPROTO;
    struct rowen_ledger_layout layout =
        rowen_ledger_layout(size, ledger->capacity, ledger->places, ledger->chunk_count);
    if (layout.end > ledger->bytes) return -EPROTO;
    char *file = ledger->file;
    ledger->used = &page->used;
    ledger->tokens = (void *)(file + layout.tokens);
    ledger->unknown = (void *)(file + layout.unknown);
    ledger->chunks = (void *)(file + layout.chunks);
    atomic_store(ledger->used, 0);
    memset(file + layout.tokens, 0, layout.end - layout.tokens);
    return 0;
}

static size_t row_words(const struct rowen_ledger *ledger) { return ledger->capacity / 64 + 1; }

static int32_t attach(struct rowen_ledger *ledger, int32_t fd) {
    uint64_t bytes;
    if (!rowen_memory_sealed(fd, &bytes) || bytes < sizeof(struct rowen_ledger_page)) return -EPROTO;
    ledger->bytes = bytes;
    ledger->file = mmap(NULL, ledger->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (ledger->file == MAP_FAILED) return -errno;
    int32_t error = lay_out(ledger);
    if (error) return error;
    ledger->process = getpid();
    ledger->empty = NONE;
    ledger->before = calloc(ledger->chunk_count, sizeof *ledger->before);
    ledger->strange = calloc(ledger->capacity, sizeof *ledger->strange);
    ledger->leaving = calloc(row_words(ledger), sizeof *ledger->leaving);
    return ledger->before && ledger->strange && ledger->leaving ? 0 : -ENOMEM;
}

struct rowen_ledger *rowen_ledger_attach(int32_t fd, int32_t *error) {
    struct rowen_ledger *ledger = calloc(1, sizeof *ledger);
    *error = -ENOMEM;
    if (!ledger) return NULL;
    ledger->file = MAP_FAILED;
    *error = attach(ledger, fd);
    if (*error == 0) return ledger;
    rowen_ledger_detach(ledger);
    return NULL;
}

void rowen_ledger_detach(struct rowen_ledger *ledger) {
    if (ledger->file != MAP_FAILED) munmap(ledger->file, ledger->bytes);
    for (uint32_t i = 0; i < ledger->owner_count; i++) free(ledger->owners[i].has);
    free(ledger->owners);
    free(ledger->leaving);
    free(ledger->strange);
    free(ledger->before);
    free(ledger);
}

uint32_t rowen_ledger_capacity(const struct rowen_ledger *ledger) { return ledger->capacity; }

/* A child after fork() shares the file, but not what the ledger knows of it. */
static bool is_ours(const struct rowen_ledger *ledger) { return ledger->process == getpid(); }

void rowen_ledger_set(struct rowen_ledger *ledger, const uint32_t *owners, const uint32_t *tokens, uint32_t n) {
    if (!is_ours(ledger)) return;
    for (uint32_t i = 0; i < n; i++)
        if (owners[i] < ledger->places)
            atomic_store_explicit(&ledger->tokens[owners[i]], tokens[i], memory_order_relaxed);
}

static bool is_set(const uint64_t *bits, uint32_t handle) { return bits[handle / 64] >> handle % 64 & 1; }
static void flip(uint64_t *bits, uint32_t handle) { bits[handle / 64] ^= 1ull << handle % 64; }

/* The owner with room for its bits; NULL without memory for that. */
static struct owner *enter(struct rowen_ledger *ledger, uint32_t number) {
    if (number >= ledger->owner_count) {
        uint32_t count = number < 32 ? 64 : 2 * number;
        struct owner *owners = realloc(ledger->owners, count * sizeof *owners);
        if (!owners) return NULL;
        for (uint32_t i = ledger->owner_count; i < count; i++) owners[i] = (struct owner){NULL, NONE, 0, 0};
        ledger->owners = owners;
        ledger->owner_count = count;
    }
    struct owner *owner = &ledger->owners[number];
    if (!owner->has) owner->has = calloc(row_words(ledger), sizeof *owner->has);
    return owner->has ? owner : NULL;
}

static uint32_t take_chunk(struct rowen_ledger *ledger) {
    uint32_t chunk = ledger->empty;
    if (chunk != NONE) {
        ledger->empty = ledger->before[chunk];
        return chunk;
    }
    uint32_t used = atomic_load(ledger->used);
    if (used >= ledger->chunk_count) return NONE;
    atomic_store(ledger->used, used + 1);
    return used;
}

/* Makes room for one more handle of the owner in its newest chunk; false if the table is full. */
static bool make_room(struct rowen_ledger *ledger, uint32_t number, struct owner *owner) {
    if (number >= ledger->places) return false;
    if (owner->newest != NONE && owner->filled < ROWEN_LEDGER_HANDLES) return true;
    uint32_t chunk = take_chunk(ledger);
    if (chunk == NONE) return false;
    ledger->before[chunk] = owner->newest;
    owner->newest = chunk;
    owner->filled = 0;
    atomic_store(&ledger->chunks[chunk].owner, number + 1);
    return true;
}

int32_t rowen_ledger_add(struct rowen_ledger *ledger, uint32_t number, const uint32_t *handles, uint32_t n) {
    if (!is_ours(ledger)) return 0;
    struct owner *owner = enter(ledger, number);
    if (!owner) return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t handle = handles[i];
        if (handle >= ledger->capacity || is_set(owner->has, handle)) continue;
        flip(owner->has, handle);
        if (make_room(ledger, number, owner)) {
            atomic_store(&ledger->chunks[owner->newest].handle[owner->filled++], handle + 1);
        } else {
            owner->unknown++;
            if (ledger->strange[handle]++ == 0) atomic_fetch_or(&ledger->unknown[handle / 64], 1ull << handle % 64);
        }
    }
    return 0;
}

/* The owner if it ever had a handle, else NULL. */
static struct owner *find(struct rowen_ledger *ledger, uint32_t number) {
    if (!is_ours(ledger) || number >= ledger->owner_count || !ledger->owners[number].has) return NULL;
    return &ledger->owners[number];
}

/* Takes the newest handle out of the table; returns its entry. */
static uint32_t take_newest(struct rowen_ledger *ledger, struct owner *owner) {
    uint32_t chunk = owner->newest;
    uint32_t entry = atomic_exchange(&ledger->chunks[chunk].handle[--owner->filled], 0);
    if (owner->filled == 0) {
        atomic_store(&ledger->chunks[chunk].owner, 0);
        owner->newest = ledger->before[chunk];
        owner->filled = owner->newest == NONE ? 0 : ROWEN_LEDGER_HANDLES;
        ledger->before[chunk] = ledger->empty;
        ledger->empty = chunk;
    }
    return entry;
}

/* Takes a handle that is not in the table from the owner. */
static void take_unknown(struct rowen_ledger *ledger, struct owner *owner, uint32_t handle) {
    flip(owner->has, handle);
    owner->unknown--;
    if (--ledger->strange[handle] == 0) atomic_fetch_and(&ledger->unknown[handle / 64], ~(1ull << handle % 64));
}

/* Takes the leaving handles of a chunk out of the table; the newest ones, which stay, move into their places. */
static void clear_chunk(struct rowen_ledger *ledger, struct owner *owner, uint32_t chunk) {
    uint32_t filled = chunk == owner->newest ? owner->filled : ROWEN_LEDGER_HANDLES;
    for (uint32_t i = filled; i-- > 0;) {
        uint32_t handle = atomic_load(&ledger->chunks[chunk].handle[i]) - 1;
        if (!is_set(ledger->leaving, handle)) continue;
        flip(ledger->leaving, handle);
        flip(owner->has, handle);
        bool is_newest = chunk == owner->newest && i + 1 == owner->filled;
        uint32_t entry = take_newest(ledger, owner);
        if (!is_newest) atomic_store(&ledger->chunks[chunk].handle[i], entry);
    }
}

void rowen_ledger_remove(struct rowen_ledger *ledger, uint32_t number, const uint32_t *handles, uint32_t n) {
    struct owner *owner = find(ledger, number);
    if (!owner) return;
    for (uint32_t i = 0; i < n; i++)
        if (handles[i] < ledger->capacity && is_set(owner->has, handles[i]) && !is_set(ledger->leaving, handles[i]))
            flip(ledger->leaving, handles[i]);
    for (uint32_t chunk = owner->newest, before; chunk != NONE; chunk = before) {
        before = ledger->before[chunk];
        clear_chunk(ledger, owner, chunk);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (handles[i] >= ledger->capacity || !is_set(ledger->leaving, handles[i])) continue;
        flip(ledger->leaving, handles[i]);
        take_unknown(ledger, owner, handles[i]);
    }
}

void rowen_ledger_drop(struct rowen_ledger *ledger, uint32_t number) {
    uint32_t nothing = 0;
    rowen_ledger_set(ledger, &number, &nothing, 1);
    struct owner *owner = find(ledger, number);
    if (!owner) return;
    while (owner->newest != NONE) flip(owner->has, take_newest(ledger, owner) - 1);
    for (size_t word = 0; owner->unknown; word++)
        for (uint64_t bits = owner->has[word]; bits; bits &= bits - 1)
            take_unknown(ledger, owner, (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(bits));
}
