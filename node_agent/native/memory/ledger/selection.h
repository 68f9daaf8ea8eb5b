/* The agent's choice of the handles that a process loses. */
#ifndef ROWEN_SELECTION_H
#define ROWEN_SELECTION_H

#include "memory/ledger/ledger_abi.h"
#include "shared/page.h"

struct rowen_selection;

struct rowen_choice {
    uint64_t tokens;  /* what the owners of the chosen handles have to compute again, as far as the ledger knows them */
    uint32_t owners;  /* so many of them */
    uint32_t unknown; /* chosen handles with owners that the ledger does not know */
    uint32_t free;    /* eligible handles that cost nothing, chosen or not */
    uint32_t chunks;  /* of the ledger, that were read */
};

/* Prepares choices from a ledger; all memory that they take is set aside here. The descriptor must stay open, and need
 * not be the agent's own work: NULL and -errno in *error, -EPROTO if it is not a sealed ledger of that shape. */
ROWEN_API struct rowen_selection *rowen_selection_open(int32_t ledger, uint32_t capacity, uint32_t owners,
                                                       int32_t *error);
ROWEN_API void rowen_selection_close(struct rowen_selection *selection);

/* Chooses `wanted` of the eligible handles, or all if they are fewer; writes them to `chosen`, in the order of
 * `eligible`, and returns how many. What the ledger does not explain costs nothing and goes first; among equals the
 * order of `eligible` decides. Handles outside the ledger's range, and those that are listed again, do not count.
 * Reads the ledger once; bounded in time and memory whatever it says. One thread at a time. */
ROWEN_API uint32_t rowen_ledger_choose(struct rowen_selection *selection, const uint32_t *eligible, uint32_t count,
                                       uint32_t wanted, uint32_t *chosen, struct rowen_choice *choice);

#endif
