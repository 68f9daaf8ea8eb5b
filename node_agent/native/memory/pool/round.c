/* One round of a pool: what the online side owns. */
#include "memory/pool/round.h"

void rowen_round_look(struct rowen_pool *pool) {
    for (uint32_t i = 0; i < pool->count; i++) rowen_member_look(pool->members[i]);
}

uint32_t rowen_round_handles(const struct rowen_pool *pool, uint64_t bytes) {
    uint64_t handles = bytes / pool->handle_bytes + (bytes % pool->handle_bytes > 0);
    return handles < pool->total ? (uint32_t)handles : pool->total;
}

uint32_t rowen_round_free(const struct rowen_pool *pool) {
    uint64_t owned = pool->fixed;
    for (uint32_t i = 0; i < pool->count; i++) owned += rowen_member_owned(pool->members[i]);
    owned += rowen_round_handles(pool, pool->book.absent_bytes);
    return owned < pool->total ? (uint32_t)(pool->total - owned) : 0;
}

/* Handles that the fixed part and the grants in effect are beyond the pool: an engine took them while there was no agent,
 * or the pool was larger. What a member has beyond its grants is its own affair. */
static uint32_t excess(const struct rowen_pool *pool) {
    uint64_t granted = pool->fixed + rowen_round_handles(pool, pool->book.absent_bytes);
    for (uint32_t i = 0; i < pool->count; i++) granted += pool->members[i]->ceiling;
    uint64_t beyond = granted > pool->total ? granted - pool->total : 0;
    return beyond < pool->total ? (uint32_t)beyond : pool->total;
}

void rowen_round_count(struct rowen_pool *pool, uint32_t taken, uint32_t fixed) {
    pool->reclaims += taken > 0;
    pool->handles_reclaimed += taken;
    pool->handles_for_engines += taken > fixed ? taken - fixed : 0;
}

static bool takes_part(const struct rowen_member *member, uint32_t kind) {
    return member->kind == kind && !member->leaving;
}

/* What offline members lack of their requests is kept for them. */
static uint32_t kept(const struct rowen_pool *pool) {
    uint64_t lacking = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct rowen_member *member = pool->members[i];
        uint32_t owned = rowen_member_owned(member);
        if (takes_part(member, ROWEN_OFFLINE) && member->request > owned) lacking += member->request - owned;
    }
    return lacking < pool->total ? (uint32_t)lacking : pool->total;
}

uint32_t rowen_round_online(struct rowen_pool *pool) {
    uint32_t free = rowen_round_free(pool), keep = kept(pool);
    uint32_t spare = free > keep ? free - keep : 0;
    uint32_t missing = pool->fixed_target - pool->fixed;
    uint32_t more = missing < spare ? missing : spare;
    pool->fixed += more;
    missing -= more;
    spare -= more;
    for (uint32_t i = 0; i < pool->count; i++) {
        struct rowen_member *member = pool->members[i];
        if (!takes_part(member, ROWEN_ONLINE) || member->grant >= member->target) continue;
        spare = rowen_member_raise(member, member->target, spare);
        missing += member->target - member->grant;
    }
    return missing + excess(pool);
}

/* Raises the target of a member that is short of memory, and lowers a grant above it. */
static void aim(struct rowen_member *member) {
    bool needs = member->wanted > member->grant ||
                 (member->used > 0 && member->used >= member->threshold * member->target);
    uint32_t need = member->wanted > member->growth ? member->wanted : member->growth;
    if (need > member->bound) need = member->bound;
    if (member->target > member->bound) member->target = member->bound;
    if (needs && need > member->target) {
        member->target = need;
        member->pressures++;
    }
    if (member->grant > member->target) rowen_member_grant(member, member->target);
}

/* Grants that are not used lose nothing: no handle is held by them. What is in the file of a member that does not say so
 * keeps no grant up: it is freed while the member stands still, or the member has more than its grant for too long. */
static void revoke(struct rowen_pool *pool, uint32_t missing) {
    for (uint32_t i = 0; i < pool->count && missing; i++) {
        struct rowen_member *member = pool->members[i];
        if (!takes_part(member, ROWEN_OFFLINE)) continue;
        uint32_t floor = member->request > member->held ? member->request : member->held;
        uint32_t unused = member->grant > floor ? member->grant - floor : 0;
        uint32_t cut = unused < missing ? unused : missing;
        if (cut) rowen_member_grant(member, member->grant - cut);
        missing -= cut;
    }
}

/* A member that is stopped cannot give back: only running time counts, of which both ends were seen. */
static void clock_in(struct rowen_pool *pool, bool stopped, uint64_t now_ns) {
    uint64_t passed = pool->round_ns && now_ns > pool->round_ns ? now_ns - pool->round_ns : 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        struct rowen_member *member = pool->members[i];
        if (rowen_member_owned(member) <= member->grant) member->over_ns = 0;
        else if (member->kind == ROWEN_ONLINE || !(stopped || pool->was_stopped)) member->over_ns += passed;
    }
    pool->round_ns = now_ns;
    pool->was_stopped = stopped;
}

static bool could_give(const struct rowen_pool *pool) {
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct rowen_member *member = pool->members[i];
        if (!takes_part(member, ROWEN_OFFLINE)) continue;
        /* What a member says that it holds may be less than what is there. */
        if (member->held > member->request || member->really > member->request) return true;
    }
    return false;
}

static bool lacks(const struct rowen_pool *pool) {
    return (pool->fixed < pool->fixed_target || excess(pool) > 0) && could_give(pool);
}

uint32_t rowen_pool_serve(struct rowen_pool *pool, bool offline_stopped, uint64_t now_ns) {
    pthread_mutex_lock(&pool->lock);
    rowen_book_look(&pool->book, now_ns);
    rowen_round_look(pool);
    clock_in(pool, offline_stopped, now_ns);
    for (uint32_t i = 0; i < pool->count; i++)
        if (takes_part(pool->members[i], ROWEN_ONLINE)) aim(pool->members[i]);
    uint32_t missing = rowen_round_online(pool);
    if (missing) {
        revoke(pool, missing);
        missing = rowen_round_online(pool);
    }
    if (missing && offline_stopped) missing = rowen_round_take(pool, missing);
    rowen_round_offline(pool, missing);
    pool->deficit = missing;
    pool->lacks = lacks(pool);
    pool->owes = missing && could_give(pool);
    pthread_mutex_unlock(&pool->lock);
    return missing;
}
