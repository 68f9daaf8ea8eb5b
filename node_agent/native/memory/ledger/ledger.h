/* The ledger in the process that has the memory, and the making of its file by the agent. */
#ifndef ROWEN_LEDGER_H
#define ROWEN_LEDGER_H

#include "memory/ledger/ledger_abi.h"
#include "shared/page.h"

struct rowen_ledger;

/* Makes the file of a ledger: a sealed descriptor, or -errno. -EINVAL: none or too many handles or owners. */
ROWEN_API int32_t rowen_ledger_make(uint32_t capacity, uint32_t owners);

/* Maps a ledger and empties it; the descriptor may be closed afterwards. NULL and -errno in *error; -EPROTO: not a
 * ledger. The whole file gets its memory at once, so that no later call waits for the kernel. */
ROWEN_API struct rowen_ledger *rowen_ledger_attach(int32_t fd, int32_t *error);
ROWEN_API void rowen_ledger_detach(struct rowen_ledger *ledger);
ROWEN_API uint32_t rowen_ledger_capacity(const struct rowen_ledger *ledger);

/* Owners are numbered from 0. The table has room for the lowest numbers, and for so many handles of theirs. What finds
 * no place is entered as unknown, and goes last when handles are taken.
 *
 * Handles out of range are left out. -ENOMEM: nothing was changed. In a child after fork() nothing happens: what it
 * does to its copy of the parent's memory is not the ledger's business. One thread at a time. */

/* Says what each of n owners costs. */
ROWEN_API void rowen_ledger_set(struct rowen_ledger *ledger, const uint32_t *owners, const uint32_t *tokens,
                                uint32_t n);
/* The owner has something in these handles; it may be said twice. */
ROWEN_API int32_t rowen_ledger_add(struct rowen_ledger *ledger, uint32_t owner, const uint32_t *handles, uint32_t n);
/* The owner has nothing left in these handles. */
ROWEN_API void rowen_ledger_remove(struct rowen_ledger *ledger, uint32_t owner, const uint32_t *handles, uint32_t n);
/* The owner costs nothing and has nothing in any handle. */
ROWEN_API void rowen_ledger_drop(struct rowen_ledger *ledger, uint32_t owner);

#endif
