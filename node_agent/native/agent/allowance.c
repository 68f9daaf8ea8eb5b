/* What a stopped pod may use of its CPUs. */
#include "agent/allowance.h"

bool rowen_allowance_spend(struct rowen_allowance *allowance, uint64_t most_ns, uint64_t passed_ns, uint64_t used_ns) {
    uint64_t there = allowance->left_ns + passed_ns / ROWEN_ALLOWANCE_FRACTION;
    uint64_t spent = used_ns > allowance->used_ns ? used_ns - allowance->used_ns : 0;
    uint64_t left = spent < there ? there - spent : 0;
    if (allowance->left_ns > most_ns) most_ns = allowance->left_ns; /* it was given more */
    allowance->used_ns = used_ns;
    allowance->left_ns = left < most_ns ? left : most_ns;
    return spent <= there;
}
