/* A share of the device: what offline work may use while requests are in flight, as a limit of its pods' CPU time.
 *
 * The limit is the kernel's, set before the gate opens at a share and taken back at the close. Until it has used that up
 * offline work goes before the engine, by its weight: with equal ones an engine whose threads are on several CPUs may
 * leave it nothing at all, since the kernel weighs it anew at each change of their load, and puts it ahead each time
 * (seen with Linux 6.18). What a pod's limit and weight were before is kept in the device's state: an agent that dies
 * leaves it to the next one. */
#define _GNU_SOURCE
#include <errno.h>

#include "agent/device.h"

/* Short beside an engine's step, so that it finds the same share in each of them. The kernel gives 1 ms at least: a part
 * that is less has a longer period. */
#define PERIOD_US 10000
#define LEAST_QUOTA_US 1000

uint32_t rowen_share_said(struct rowen_agent *agent, uint64_t gate) {
    uint32_t least = 0;
    ROWEN_FOR_MEMBERS(agent, member) {
        if (member->slot != ROWEN_ENGINE) continue;
        uint64_t said = atomic_load(&member->page->share);
        if ((uint32_t)said == 0) continue; /* another of the engine's processes says it */
        uint32_t tenths = said >> 32 == gate >> 32 ? (uint32_t)said - 1 : 0;
        if (tenths == 0) return 0;
        if (least == 0 || tenths < least) least = tenths;
    }
    return least < ROWEN_WHOLE ? least : ROWEN_WHOLE - 1; /* an engine's word */
}

/* A pod may have several slots, and has one limit. */
static bool first_of_pod(const struct rowen_agent *agent, uint32_t index) {
    for (uint32_t i = 0; i < index; i++)
        if (agent->pods[i].known && agent->pods[i].pod == agent->pods[index].pod) return false;
    return agent->pods[index].known;
}

static uint32_t known_pods(const struct rowen_agent *agent) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < agent->slots; i++) count += first_of_pod(agent, i);
    return count;
}

/* What each of so many pods may use. */
static struct rowen_limit part_of(const struct rowen_agent *agent, uint32_t tenths, uint32_t pods) {
    int64_t share = (int64_t)agent->cpus * tenths, parts = ROWEN_WHOLE * (int64_t)pods;
    int64_t quota_us = PERIOD_US * share / parts;
    if (quota_us >= LEAST_QUOTA_US) return (struct rowen_limit){quota_us, PERIOD_US};
    return (struct rowen_limit){LEAST_QUOTA_US, (LEAST_QUOTA_US * parts + share - 1) / share};
}

/* What the last agent has left stays noted until its pod is known to this one. */
static void lift(struct rowen_agent *agent, uint32_t index) {
    struct rowen_found_limit *found = &agent->state->limits[index];
    if (!agent->pods[index].known || !found->lowered) return;
    struct rowen_limit limit = {found->quota_us, found->period_us};
    if (found->weight) rowen_cgroup_set_weight(&agent->pods[index].cgroup, found->weight);
    rowen_cgroup_set_limit(&agent->pods[index].cgroup, &limit);
    found->lowered = false;
}

/* On another device, too, it would be limited there as well. */
static bool may_lower(const struct rowen_agent *agent, uint32_t index) {
    return !rowen_backstop_elsewhere(agent, agent->pods[index].pod);
}

/* A pod's own limit may be lower: then it stays. In one whose cgroup is gone nothing runs. */
static bool lower(struct rowen_agent *agent, uint32_t index, const struct rowen_limit *part) {
    struct rowen_slot *slot = &agent->pods[index];
    struct rowen_found_limit *found = &agent->state->limits[index];
    struct rowen_limit limit;
    int32_t error = rowen_cgroup_limit(&slot->cgroup, &limit);
    if (error == -ENODEV || error == -ENOENT) return true;
    if (error || !may_lower(agent, index)) return false;
    bool lower_itself = limit.quota_us >= 0 && limit.quota_us * part->period_us <= part->quota_us * limit.period_us;
    found->quota_us = limit.quota_us;
    found->period_us = limit.period_us;
    if (rowen_cgroup_weight(&slot->cgroup, &found->weight) != 0) found->weight = 0;
    found->pod = slot->pod;
    atomic_store(&found->lowered, true);
    if (lower_itself || rowen_cgroup_set_limit(&slot->cgroup, part) == 0) {
        rowen_cgroup_set_weight(&slot->cgroup, 0);
        return true;
    }
    lift(agent, index);
    return false;
}

bool rowen_share_limit(struct rowen_agent *agent, uint32_t tenths) {
    if (agent->allows_cpu || agent->cpus == 0) return false;
    uint32_t count = known_pods(agent);
    struct rowen_limit part = part_of(agent, tenths, count ? count : 1);
    bool done = true;
    for (uint32_t i = 0; done && i < agent->slots; i++) done = !first_of_pod(agent, i) || lower(agent, i, &part);
    if (!done) rowen_share_lift(agent);
    return done;
}

bool rowen_share_holds(struct rowen_agent *agent) {
    for (uint32_t i = 0; i < agent->slots; i++)
        if (agent->pods[i].known && !may_lower(agent, i)) return false;
    return rowen_share_said(agent, atomic_load(&agent->page->block.gate)) == agent->share;
}

void rowen_share_lift(struct rowen_agent *agent) {
    for (uint32_t i = 0; i < agent->slots; i++) lift(agent, i);
}

void rowen_share_forget(struct rowen_agent *agent, uint32_t index) {
    if (agent->share) rowen_close_gate(agent->page, false);
    lift(agent, index);
}

void rowen_share_adopt(struct rowen_agent *agent, uint32_t index) {
    struct rowen_found_limit *found = &agent->state->limits[index];
    if (found->lowered && found->pod == agent->pods[index].pod) lift(agent, index);
    found->lowered = false;
}
