/* The ledgers of a pool's offline members, and the choice among the handles of all of them. Any thread may call; no
 * lock is shared with a member. A pool that chooses by them holds its own lock meanwhile, and theirs within it: they
 * never call the pool. */
#ifndef ROWEN_LEDGERS_H
#define ROWEN_LEDGERS_H

#include "memory/pool/choose.h"
#include "shared/page.h"

struct rowen_ledgers;

/* NULL: no memory. */
ROWEN_API struct rowen_ledgers *rowen_ledgers_open(void);
/* No pool may choose by them any more. */
ROWEN_API void rowen_ledgers_close(struct rowen_ledgers *ledgers);

/* Makes the ledger of a member of so many handles; returns its descriptor, which is the ledgers', and the member's to
 * duplicate. -EINVAL: capacity or owners; -EEXIST: it has one; -ENOSPC: too many members. */
ROWEN_API int32_t rowen_ledgers_admit(struct rowen_ledgers *ledgers, uint32_t member, uint32_t capacity,
                                      uint32_t owners);
/* Goes on with the ledger that a process has of an earlier agent; the descriptor stays the caller's. As above; -EPROTO:
 * not a sealed ledger of that shape. */
ROWEN_API int32_t rowen_ledgers_adopt(struct rowen_ledgers *ledgers, uint32_t member, uint32_t capacity,
                                      uint32_t owners, int32_t ledger);
/* -ENOENT: it has none. */
ROWEN_API int32_t rowen_ledgers_dismiss(struct rowen_ledgers *ledgers, uint32_t member);

/* Tokens that the choices so far cost, as the members' ledgers say; a request that two choices affect counts twice. */
ROWEN_API uint64_t rowen_ledgers_tokens(struct rowen_ledgers *ledgers);

/* A pool's chooser; `context` is the ledgers. Handles that cost nothing go first, whosever they are. The rest is taken
 * from one member after the other, the one that loses the fewest tokens per handle first. Where nothing else decides,
 * higher handles go first. A member without a ledger, or after so much that was looked at, goes last. */
ROWEN_API rowen_chooser rowen_choose_cheapest;

#endif
