/* The device's pool of memory: when handles may be taken, and when the thread looks. */
#include "agent/device.h"
#include "memory/pool/pool.h"

/* A process that has closed its connection comes back within 0.1 s. One that has not by then runs another program, which
 * has no arena. */
#define LOOSE_NS ROWEN_SECOND

static bool stands(const struct rowen_agent *agent, const struct rowen_member *member, uint32_t gate, uint64_t now) {
    struct rowen_member_block *block = &member->page->block;
    const struct rowen_slot *slot = &agent->pods[member->slot];
    /* Without a control thread yet: nothing of its own program has run since it came. */
    if (slot->frozen || member->ends) return true;
    if (atomic_load(&block->ack) == gate || atomic_load(&block->control_tid) == 0) return true;
    return member->state == ROWEN_LOOSE && now > agent->acknowledged_ns + LOOSE_NS;
}

bool rowen_agent_stopped(struct rowen_agent *agent, uint64_t now) {
    uint32_t gate = rowen_gate(agent->page);
    if (!rowen_closed(gate) || agent->followed_gate != gate || !agent->acknowledged) return false;
    for (uint32_t i = 0; i < agent->slots; i++)
        if (agent->pods[i].held && !agent->pods[i].frozen) return false;
    ROWEN_FOR_MEMBERS(agent, member)
        if (member->slot != ROWEN_ENGINE && !stands(agent, member, gate, now)) return false;
    return true;
}

void rowen_agent_set_pool(struct rowen_agent *agent, struct rowen_pool *pool) { agent->pool = pool; }
