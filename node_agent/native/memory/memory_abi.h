/* Rowen's ABI of memory between the node agent and a process that has memory of the device's pool.
 *
 * Two files per process, both made by the agent and handed over when the process asks for them. They are sealed against
 * shrinking, growing and further seals: neither side can make the other fault, and the process cannot keep the agent
 * from punching.
 *   memory   capacity x handle_bytes. Handle i is the part that begins at i x handle_bytes; it has memory while it is
 *            not a hole. The process alone fills it, so that its own pod is charged; the agent punches.
 *   arena    `struct rowen_arena_page`, then one state word per handle.
 *
 * Nothing that the process writes is trusted: the agent takes what it needs into its own variables once, checks it
 * against its own bounds, and counts what the memory file really holds (st_blocks).
 *
 * A handle's way: FREE -> HELD (the process, by compare-and-swap, never more than `grant` held) -> FREE again (the
 * process, after it has punched the handle itself), or HELD -> TAKEN (the agent, only while every thread of the process
 * stands still; it punches, then lowers the grant) -> FREE (the process, when it has been told of the loss). Before any
 * thread of the process goes on, the addresses of TAKEN handles lead to a quarantine page, so that a late access neither
 * faults nor fills the hole.
 *
 * The files outlive their agent: the process hands them to the next one, which goes on with them. An engine may have
 * taken more meanwhile than it was granted: that stays its own.
 *
 * Layout changes as rowen_abi.h says: new fields go to the end, `size` and `features` say which are there.
 */
#ifndef ROWEN_MEMORY_ABI_H
#define ROWEN_MEMORY_ABI_H

#include <stdatomic.h>
#include <stdint.h>

#define ROWEN_ARENA_MAGIC 0x414e4552414e574full
#define ROWEN_HANDLE_BYTES (2u << 20)
/* Handles of one arena at most: each may be a mapping of its own, and the kernel allows a process 65,530. */
#define ROWEN_ARENA_CAPACITY 32768u
/* Of the page: what is in the first so many bytes never changes; a release with more of them than this is refused. */
#define ROWEN_ARENA_LEAST 192u
#define ROWEN_ARENA_MOST (1u << 20)

enum rowen_handle_state { ROWEN_HANDLE_FREE = 0, ROWEN_HANDLE_HELD = 1, ROWEN_HANDLE_TAKEN = 2 };

struct rowen_arena_page {
    _Atomic uint64_t magic;
    _Atomic uint32_t size; /* of this structure, where the states begin */
    _Atomic uint32_t features;
    _Atomic uint64_t handle_bytes;
    _Atomic uint32_t capacity;
    _Atomic uint32_t reserved;

    /* Written by the agent; the grant also by an engine's library, while there is no agent. */
    _Alignas(64) _Atomic uint32_t grant; /* futex: most handles that may be held */
    _Atomic uint32_t taken;              /* handles taken so far */

    /* Written by the process. */
    _Alignas(64) _Atomic uint32_t held;
    _Atomic uint32_t want;
    _Atomic uint32_t used;

    _Alignas(64) _Atomic uint32_t state[]; /* where `size` says */
};

#endif
