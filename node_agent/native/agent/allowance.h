/* CPU time that a stopped pod may use: some at once, and a twentieth of the time in the long run. Pure. */
#ifndef ROWEN_ALLOWANCE_H
#define ROWEN_ALLOWANCE_H

#include <stdbool.h>

#include "rowen_abi.h"

#define ROWEN_ALLOWANCE_FRACTION 20

struct rowen_allowance {
    uint64_t left_ns; /* to be used at once */
    uint64_t used_ns; /* counter of what was used, when it was last looked at */
};

/* Time has passed and the counter has got on since the last look. A look that comes late accuses nobody: what came in
 * meanwhile is there before what was used. Nothing comes in above `most_ns`. False: more was used than was there. */
ROWEN_API bool rowen_allowance_spend(struct rowen_allowance *allowance, uint64_t most_ns, uint64_t passed_ns,
                                     uint64_t used_ns);

#endif
