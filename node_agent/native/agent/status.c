/* Reading a device from outside its thread. */
#define _GNU_SOURCE
#include <string.h>

#include "agent/device.h"

static void add_compositions(struct rowen_agent *agent, struct rowen_status *status) {
    ROWEN_FOR_MEMBERS(agent, member) {
        if (member->slot != ROWEN_ENGINE) continue;
        struct rowen_composition *told = &member->page->composition;
        status->steps += atomic_load(&told->steps);
        status->step_ns += atomic_load(&told->step_ns);
        status->decode_rows += atomic_load(&told->decode_rows);
        status->prefill_tokens += atomic_load(&told->prefill_tokens);
    }
}

void rowen_agent_status(struct rowen_agent *agent, struct rowen_status *status) {
    const struct rowen_state *state = agent->state;
    pthread_mutex_lock(&agent->lock);
    uint64_t now = rowen_now(); /* not before: another look with a later one may come between */
    rowen_agent_scan(agent, now);
    *status = (struct rowen_status){
        .now_ns = now,
        .idle_ns = state->idle_ns,
        .harvested_ns = state->harvested_ns,
        .preemptions = state->preemptions,
        .backstops = state->backstops,
        .gap_ns = rowen_agent_gap(agent, now),
        .cooldown_ns = agent->cooldown_ns,
        .lease_until_ns = agent->page->block.lease_until_ns,
        .requests_made = state->requests_made,
        .transitions_made = state->transitions_made,
        .gate = rowen_gate(agent->page),
        .online_attached = agent->engines,
        .in_flight = agent->in_flight,
        .tenants = agent->page->tenants,
        .shared_ns = state->shared_ns,
    };
    if (!rowen_closed(status->gate)) status->share = agent->share;
    memcpy(status->accounts, state->accounts, sizeof status->accounts);
    add_compositions(agent, status);
    pthread_mutex_unlock(&agent->lock);
}

uint32_t rowen_agent_requests(struct rowen_agent *agent, uint64_t after, struct rowen_request *out,
                              uint32_t capacity) {
    uint64_t made = atomic_load(&agent->state->requests_made);
    uint32_t count = 0;
    for (uint64_t number = rowen_first_number(after, made, ROWEN_RING); number <= made && count < capacity; number++) {
        struct rowen_request *request = &agent->state->requests[(number - 1) % ROWEN_RING];
        if (atomic_load(&request->number) != number) continue;
        memcpy(&out[count], request, sizeof *request);
        if (atomic_load(&request->number) == number) count++;
    }
    return count;
}

uint32_t rowen_agent_transitions(struct rowen_agent *agent, uint64_t after, struct rowen_transition *out,
                                 uint32_t capacity) {
    uint64_t made = atomic_load(&agent->state->transitions_made);
    uint32_t count = 0;
    for (uint64_t number = rowen_first_number(after, made, ROWEN_RING); number <= made && count < capacity; number++) {
        struct rowen_transition *transition = rowen_transition_at(agent->state, number);
        memcpy(&out[count], transition, sizeof *transition);
        if (atomic_load(&transition->number) == number) count++;
    }
    return count;
}
