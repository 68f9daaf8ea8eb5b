/* A pool from within, and what its rounds are made of. All of it under the pool's lock. */
#ifndef ROWEN_ROUND_H
#define ROWEN_ROUND_H

#include <pthread.h>

#include "memory/pool/member.h"

struct rowen_pool {
    pthread_mutex_t lock;
    uint32_t total;
    uint32_t fixed; /* kept from all members */
    uint32_t fixed_target;
    bool lacks; /* handles that are in use already and that offline members hold, after the last round */
    bool owes;  /* any that are missing and that offline members hold */
    uint64_t handle_bytes;
    bool huge;
    struct rowen_member *members[ROWEN_POOL_MEMBERS]; /* in the order in which they came */
    uint32_t count;
    uint32_t last_number;
    rowen_chooser *choose;
    void *context;
    struct rowen_pick *picks; /* room for all handles */
    uint64_t reclaims;
    uint64_t handles_reclaimed;
    uint64_t handles_for_engines;
    uint32_t deficit;
    struct rowen_book book;

    /* Of the last round. */
    uint64_t round_ns;
    bool was_stopped;
};

/* Looks at every member. */
void rowen_round_look(struct rowen_pool *pool);
/* Bytes in handles, rounded up, and all there are at most. */
uint32_t rowen_round_handles(const struct rowen_pool *pool, uint64_t bytes);
/* Handles that no member owns, and that are not kept from all. */
uint32_t rowen_round_free(const struct rowen_pool *pool);
/* Counts a reclaim of so many handles, of which the first `fixed` were for the fixed part; none of 0. */
void rowen_round_count(struct rowen_pool *pool, uint32_t taken, uint32_t fixed);
/* Raises the fixed part and the grants of online members towards their targets, out of what is free and not kept for
 * requests. Returns how many handles are still missing, with those that grants in effect are beyond the pool. */
uint32_t rowen_round_online(struct rowen_pool *pool);
/* Takes so many handles from offline members that stand still, and hands them on at once. Returns what is missing. */
uint32_t rowen_round_take(struct rowen_pool *pool, uint32_t missing);
/* Sets the grants of offline members. `missing`: handles that the online side lacks; then there is nothing to spare. */
void rowen_round_offline(struct rowen_pool *pool, uint32_t missing);

#endif
