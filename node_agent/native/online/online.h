/* The online side of the library, inside one process of an engine. */
#ifndef ROWEN_ONLINE_H
#define ROWEN_ONLINE_H

#include "shared/link.h"

/* One device that the engine is on. */
struct rowen_engine_place {
    struct rowen_link link;
    _Atomic bool attached; /* the link's files are mapped; they stay so */
    uint64_t lost_ns;      /* the watcher's: since when it has no agent; 0: it has one */
};

struct rowen_engine {
    /* Held for some instructions, and for the mapping of new files; never while anybody is asked. */
    pthread_mutex_t lock;
    struct rowen_engine_place places[ROWEN_ENGINE_DEVICES];
    _Atomic uint32_t count; /* of the places; 0: nobody has asked to attach */
    /* What every device is told alike, kept here for the next agent. */
    uint32_t in_flight;
    uint64_t idle_since_ns;
    uint64_t step_end_ns;
    bool failed;
    struct rowen_composition composition;
};

extern struct rowen_engine rowen_engine;

#define ROWEN_FOR_ENGINE_PLACES(place)                              \
    for (struct rowen_engine_place *place = rowen_engine.places;    \
         place < rowen_engine.places + atomic_load(&rowen_engine.count); place++)
#define ROWEN_FOR_ATTACHED(place) \
    ROWEN_FOR_ENGINE_PLACES(place) if (atomic_load(&place->attached))

/* Has the device's agent look at what its engine says. */
static inline void rowen_engine_tell(struct rowen_engine_place *place) {
    atomic_fetch_add(&place->link.device->block.events, 1);
    rowen_wake(&place->link.device->block.events, true);
}

/* Says what the engine's steps were made of so far. */
void rowen_engine_compose(struct rowen_member_page *member);

#endif
