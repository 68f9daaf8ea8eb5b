#include "memory/pool/choose.h"

#include <stddef.h>

#include "memory/pool/pool.h"

/* What is left of a candidate: handles at and above `next` have been looked at. */
struct rest {
    uint32_t left, next;
};

static void look(const struct rowen_candidate *candidate, struct rest *rest) {
    while (rest->next > 0 && !candidate->held[rest->next - 1]) rest->next--;
    if (rest->next == 0) rest->left = 0;
}

uint32_t rowen_choose_highest(void *context, const struct rowen_candidate *candidates, uint32_t count, uint32_t need,
                              struct rowen_pick *picks) {
    (void)context;
    struct rest rests[ROWEN_POOL_MEMBERS];
    for (uint32_t i = 0; i < count; i++) {
        rests[i] = (struct rest){candidates[i].most, candidates[i].capacity};
        look(&candidates[i], &rests[i]);
    }
    for (uint32_t n = 0; n < need; n++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < count; i++)
            if (rests[i].left > rests[best].left) best = i;
        if (count == 0 || rests[best].left == 0) return n;
        picks[n] = (struct rowen_pick){candidates[best].member, --rests[best].next};
        rests[best].left--;
        look(&candidates[best], &rests[best]);
    }
    return need;
}
