/* Rowen's ABI of the ledger: which handles of memory each owner in a process has something in, and what an owner costs.
 *
 * One sealed file per process with memory of the pool, made by the agent. The process writes; the agent reads it when
 * it has to take handles away, while every thread of the process stands still, perhaps in the middle of a change.
 *   `struct rowen_ledger_page`   `size` bytes.
 *   tokens     one 32-bit word per owner: what the loss of any of its handles makes it compute again. 0: nothing,
 *              whatever handles it has.
 *   unknown    one bit per handle: set if owners have something in it that found no place in the table.
 *   chunks     each of one owner, with up to ROWEN_LEDGER_HANDLES of its handles. Their order means nothing.
 * Each part begins at a multiple of 64 bytes.
 *
 * A file of zeros is an empty ledger, and nothing in a ledger refers to another part of it: whatever its content, half
 * a change included, a reader comes to an end. A wrong one leads to a worse choice for its own process, and to nothing
 * else.
 *
 * Layout changes as rowen_abi.h says: new fields go to the end, `size` and `features` say which are there.
 */
#ifndef ROWEN_LEDGER_ABI_H
#define ROWEN_LEDGER_ABI_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define ROWEN_LEDGER_MAGIC 0x524744454c4e574full /* "OWNLEDGR" */
#define ROWEN_LEDGER_CAPACITY_MAX (1u << 20)      /* handles: 2 TiB */
#define ROWEN_LEDGER_OWNERS_MAX (1u << 14)
#define ROWEN_LEDGER_HANDLES 15
#define ROWEN_LEDGER_OWNERS_PER_HANDLE 16 /* on average, that there is room for */

struct rowen_ledger_page {
    _Atomic uint64_t magic;
    _Atomic uint32_t size; /* of this structure, where the tokens begin */
    _Atomic uint32_t features;
    _Atomic uint32_t capacity; /* handles */
    _Atomic uint32_t owners;
    _Atomic uint32_t chunks;

    /* Written by the process. */
    _Alignas(64) _Atomic uint32_t used; /* chunks; those after them are empty */
    _Alignas(64) unsigned char end[];
};

struct rowen_ledger_chunk {
    _Atomic uint32_t owner;                         /* 1 and up; 0: the chunk is empty */
    _Atomic uint32_t handle[ROWEN_LEDGER_HANDLES]; /* 1 and up; 0: none */
};

/* Where each part begins, and where the last one ends. */
struct rowen_ledger_layout {
    size_t tokens;
    size_t unknown;
    size_t chunks;
    size_t end;
};

static inline size_t rowen_ledger_round(size_t bytes) { return (bytes + 63) / 64 * 64; }

static inline struct rowen_ledger_layout rowen_ledger_layout(size_t size, uint32_t capacity, uint32_t owners,
                                                             uint32_t chunks) {
    struct rowen_ledger_layout layout = {.tokens = rowen_ledger_round(size)};
    layout.unknown = layout.tokens + rowen_ledger_round(owners * sizeof(uint32_t));
    layout.chunks = layout.unknown + rowen_ledger_round(capacity / 8 + 1);
    layout.end = layout.chunks + chunks * sizeof(struct rowen_ledger_chunk);
    return layout;
}

/* Chunks for ROWEN_LEDGER_OWNERS_PER_HANDLE, when each owner leaves one half empty. */
static inline uint32_t rowen_ledger_chunks(uint32_t capacity, uint32_t owners) {
    return owners + (capacity * ROWEN_LEDGER_OWNERS_PER_HANDLE + ROWEN_LEDGER_HANDLES - 1) / ROWEN_LEDGER_HANDLES;
}

#endif
