/* One round of a pool: what is taken from offline members, and what they get. */
#include "memory/pool/round.h"

/* Handles are taken and handed on in portions, so that the engine fills the first while the next are still being freed:
 * one, then twice as many each time, up to this. */
#define PORTION 32u

static bool takes_part(const struct rowen_member *member) {
    return member->kind == ROWEN_OFFLINE && !member->leaving;
}

static uint32_t lesser(uint32_t one, uint32_t other) { return one < other ? one : other; }

/* Held handles above the request. */
static uint32_t most_of(const struct rowen_member *member) {
    uint32_t owned = rowen_member_owned(member);
    return owned > member->request ? lesser(member->held, owned - member->request) : 0;
}

static uint32_t find_candidates(struct rowen_pool *pool, struct rowen_member **members,
                                struct rowen_candidate *candidates) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        struct rowen_member *member = pool->members[i];
        if (!takes_part(member)) continue;
        if (member->really > member->ceiling) rowen_member_scour(member);
        if (most_of(member) == 0) continue;
        members[n] = member;
        candidates[n++] = (struct rowen_candidate){member->number, member->capacity, most_of(member), member->holds};
    }
    return n;
}

/* Notes the picks that are valid with their members; left[i] is what may still be picked of candidate i. */
static void note(struct rowen_member **members, uint32_t *left, uint32_t count, const struct rowen_pick *pick) {
    for (uint32_t i = 0; i < count; i++) {
        struct rowen_member *member = members[i];
        if (member->number != pick->member) continue;
        if (pick->handle >= member->capacity || !member->holds[pick->handle] || member->picked[pick->handle]) return;
        if (left[i] == 0) return;
        left[i]--;
        member->picked[pick->handle] = 1;
    }
}

uint32_t rowen_round_take(struct rowen_pool *pool, uint32_t missing) {
    struct rowen_member *members[ROWEN_POOL_MEMBERS];
    struct rowen_candidate candidates[ROWEN_POOL_MEMBERS];
    uint32_t left[ROWEN_POOL_MEMBERS];
    uint32_t count = find_candidates(pool, members, candidates);
    missing = rowen_round_online(pool);
    /* What becomes free goes there first. */
    uint32_t for_fixed = pool->fixed_target - pool->fixed;
    uint32_t need = lesser(missing, pool->total);
    uint32_t picked = lesser(pool->choose(pool->context, candidates, count, need, pool->picks), need);
    for (uint32_t i = 0; i < count; i++) left[i] = candidates[i].most;
    for (uint32_t n = 0; n < picked; n++) note(members, left, count, &pool->picks[n]);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t from = 0, portion = 1; from < members[i]->capacity; portion = lesser(2 * portion, PORTION)) {
            taken += rowen_member_take(members[i], &from, portion);
            rowen_round_online(pool);
        }
        if (members[i]->really > members[i]->ceiling) rowen_member_scour(members[i]);
    }
    rowen_round_count(pool, taken, for_fixed);
    return rowen_round_online(pool);
}

/* What a member shall own if there is enough: what it wants or holds, within its share. */
static uint32_t aim_of(const struct rowen_member *member) {
    uint32_t aim = member->wanted > member->held ? member->wanted : member->held;
    if (aim < member->request) aim = member->request;
    return lesser(aim, member->limit);
}

/* Returns how many handles members still lack of their requests. */
static uint32_t meet_requests(struct rowen_pool *pool) {
    uint32_t spare = rowen_round_free(pool), lacking = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        struct rowen_member *member = pool->members[i];
        if (!takes_part(member) || member->grant >= member->request) continue;
        spare = rowen_member_raise(member, member->request, spare);
        lacking += member->request - member->grant;
    }
    return lacking;
}

/* Lowers the grants of those who have most above their requests, as far as not enough is on its way back already. */
static void recall(struct rowen_pool *pool, uint32_t lacking) {
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct rowen_member *member = pool->members[i];
        if (takes_part(member)) lacking -= lesser(lacking, member->ceiling - member->grant);
    }
    while (lacking) {
        struct rowen_member *richest = NULL;
        uint32_t most = 0;
        for (uint32_t i = 0; i < pool->count; i++) {
            struct rowen_member *member = pool->members[i];
            if (!takes_part(member) || member->grant <= member->request + most) continue;
            richest = member;
            most = member->grant - member->request;
        }
        if (!richest) return;
        uint32_t cut = lesser(most, lacking);
        rowen_member_grant(richest, richest->grant - cut);
        lacking -= cut;
    }
}

/* Shares out what is free, in equal parts among those who want more. */
static void share_out(struct rowen_pool *pool) {
    for (uint32_t spare = rowen_round_free(pool), wanting = 1; wanting; spare = rowen_round_free(pool)) {
        wanting = 0;
        for (uint32_t i = 0; i < pool->count; i++)
            wanting += takes_part(pool->members[i]) && pool->members[i]->grant < aim_of(pool->members[i]);
        uint32_t part = wanting && spare > wanting ? spare / wanting : 1;
        for (uint32_t i = 0; i < pool->count && wanting; i++) {
            struct rowen_member *member = pool->members[i];
            if (!takes_part(member) || member->grant >= aim_of(member)) continue;
            uint32_t given = lesser(part, spare);
            spare -= given - rowen_member_raise(member, aim_of(member), given);
        }
        if (spare == 0) return;
    }
}

void rowen_round_offline(struct rowen_pool *pool, uint32_t missing) {
    for (uint32_t i = 0; i < pool->count; i++) {
        struct rowen_member *member = pool->members[i];
        if (takes_part(member) && member->grant > aim_of(member)) rowen_member_grant(member, aim_of(member));
    }
    uint32_t lacking = meet_requests(pool);
    if (lacking) {
        recall(pool, lacking);
        meet_requests(pool);
    } else if (missing == 0) {
        share_out(pool);
    }
}
