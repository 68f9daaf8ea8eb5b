/* The process's side of memory that changes owner: a range of addresses, of which some handles have memory.
 *
 * One thread at a time may call map(), unmap() and lost(). It may be parked at any instruction of them while the agent
 * takes handles away and the control thread quarantines them. An arena lives as long as its process; in a child after
 * fork() its addresses are not there, and the functions refuse with -EPERM or do nothing.
 */
#ifndef ROWEN_ARENA_H
#define ROWEN_ARENA_H

#include "memory/memory_abi.h"
#include "shared/page.h"

struct rowen_arena;

/* Takes duplicates of the descriptors. Returns NULL and sets *error: -EPERM: the files are not sealed; -EPROTO: they
 * are of another layout; else -errno. */
ROWEN_API struct rowen_arena *rowen_arena_open(int32_t arena_fd, int32_t memory_fd, int32_t *error);
ROWEN_API void *rowen_arena_base(const struct rowen_arena *arena);
ROWEN_API uint64_t rowen_arena_handle_bytes(const struct rowen_arena *arena);
ROWEN_API uint32_t rowen_arena_capacity(const struct rowen_arena *arena);
ROWEN_API uint32_t rowen_arena_grant(const struct rowen_arena *arena);
/* Handles taken so far. */
ROWEN_API uint32_t rowen_arena_taken(const struct rowen_arena *arena);

/* Gives zeroed memory to the first n of the handles, as many as the grant and the pod's memory allow; returns n.
 * -EINVAL, and nothing has changed: one is out of range, named twice, mapped, or lost without lost() having said so. */
ROWEN_API int32_t rowen_arena_map(struct rowen_arena *arena, const uint32_t *handles, uint32_t count);
/* Gives handles back; one that was taken meanwhile counts as told. -EINVAL, and nothing has changed: one is out of
 * range, named twice or not mapped. */
ROWEN_API int32_t rowen_arena_unmap(struct rowen_arena *arena, const uint32_t *handles, uint32_t count);
/* Writes the handles that were taken and not told of yet to `handles` (room for `capacity`); returns how many. */
ROWEN_API int32_t rowen_arena_lost(struct rowen_arena *arena, uint32_t *handles);
ROWEN_API void rowen_arena_want(struct rowen_arena *arena, uint32_t handles);
ROWEN_API void rowen_arena_use(struct rowen_arena *arena, uint32_t handles);
/* Waits until the grant is at least that; false when the time was up first. */
ROWEN_API bool rowen_arena_wait(const struct rowen_arena *arena, uint32_t grant, uint64_t timeout_ns);

/* The descriptor of the ledger that came with the arena (memory/ledger/ledger.h), which stays the arena's. -ENODEV: none
 * did. -EBADF: the application has closed it. */
ROWEN_API int32_t rowen_arena_ledger(const struct rowen_arena *arena);

/* Notes the ledger that came with the arena; takes a duplicate of the descriptor. 0 or -errno. */
int32_t rowen_arena_take_ledger(struct rowen_arena *arena, int32_t ledger_fd);
/* Writes the descriptors of the two files, and of the ledger if there is one, which stay the arena's; returns how many.
 * -EBADF: the application has closed them. */
int32_t rowen_arena_files(const struct rowen_arena *arena, int *files);
/* No agent has it: nothing more is mapped. */
void rowen_arena_orphan(struct rowen_arena *arena);
/* `alone`: there is no agent, and this process, an engine, raises its grant by itself to what it wants. Ended before the
 * arena is handed to the next agent. Returns whether this is news. */
bool rowen_arena_alone(struct rowen_arena *arena, bool alone);
/* A futex that is counted up when the process wants or uses more than it has said before. */
void rowen_arena_tell(struct rowen_arena *arena, _Atomic uint32_t *events);
/* Whether handles were taken since rowen_arena_quarantine() was called last. */
bool rowen_arena_behind(const struct rowen_arena *arena);

/* Leads the addresses of all taken handles to the quarantine page. For the control thread, after handles were taken and
 * before any other thread goes on; one load when none were. -errno: some still lead to their holes, and the process
 * must not go on (-ENOMEM: too many mappings; -EBADF: the application has closed the arena's descriptors). */
ROWEN_API int32_t rowen_arena_quarantine(struct rowen_arena *arena);

#endif
