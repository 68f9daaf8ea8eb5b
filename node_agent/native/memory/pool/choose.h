/* Which handles are taken when the online side lacks some. */
#ifndef ROWEN_CHOOSE_H
#define ROWEN_CHOOSE_H

#include <stdint.h>

/* An offline member that stands still. */
struct rowen_candidate {
    uint32_t member;
    uint32_t capacity;
    uint32_t most;       /* that may be taken from it: what it holds above its request */
    const uint8_t *held; /* one byte per handle, 1: held. A copy that the member cannot change */
};

struct rowen_pick {
    uint32_t member;
    uint32_t handle;
};

/* Writes at most `need` picks, the order does not matter; returns how many. Picks that name something else than a held
 * handle of a candidate, or more than its `most`, are passed over. Must not wait for anything. */
typedef uint32_t rowen_chooser(void *context, const struct rowen_candidate *candidates, uint32_t count, uint32_t need,
                               struct rowen_pick *picks);

/* One by one, the highest held handle of the candidate that has the most left. Ignores `context`. */
rowen_chooser rowen_choose_highest;

#endif
