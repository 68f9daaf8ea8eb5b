/* Granted time: what this process has had of its devices so far, a share of them by what it is. One number, the same on
 * all of them. */
#define _GNU_SOURCE
#include <sched.h>

#include "tenant/tenant.h"

/* The control thread writes; the version is odd while it does. */
static _Atomic uint32_t version;
static _Atomic uint64_t granted_ns;
static _Atomic uint64_t since_ns; /* 0 while stopped */
static _Atomic uint32_t tenths;   /* of a device, that it has had since then */

static void set(uint64_t granted, uint64_t since, uint32_t share) {
    atomic_fetch_add(&version, 1);
    atomic_store(&tenths, share);
    atomic_store(&granted_ns, granted);
    atomic_store(&since_ns, since);
    atomic_fetch_add(&version, 1);
}

/* The part of a grant that lies before now: it ended when a gate closed or a lease ran out, not when the control
 * thread got to know. */
static uint64_t granted_since(uint64_t since, uint32_t share) {
    uint64_t end = rowen_now();
    ROWEN_FOR_PLACES(place) {
        const struct rowen_gate_block *block = &place->link.device->block;
        uint64_t closed_at = atomic_load((_Atomic uint64_t *)&block->closed_at_ns);
        uint64_t lease = atomic_load((_Atomic uint64_t *)&block->lease_until_ns);
        if (rowen_closed(rowen_gate(place->link.device)) && closed_at >= since && closed_at < end) end = closed_at;
        if (lease < end) end = lease;
    }
    return end > since ? (end - since) * share / ROWEN_WHOLE : 0;
}

/* It belongs to an opening, and no gate opens again before this process has acknowledged its close. */
static uint32_t least_share(void) {
    uint32_t least = ROWEN_WHOLE;
    ROWEN_FOR_PLACES(place) {
        uint32_t share = atomic_load((_Atomic uint32_t *)&place->link.device->share);
        if (share && share < least) least = share;
    }
    return least;
}

void rowen_grant_reset(void) { set(0, 0, ROWEN_WHOLE); }

bool rowen_granted(void) { return atomic_load(&since_ns) != 0; }

void rowen_grant_begin(void) { set(atomic_load(&granted_ns), rowen_now(), least_share()); }

void rowen_grant_end(void) {
    uint64_t since = atomic_load(&since_ns);
    if (since != 0) set(atomic_load(&granted_ns) + granted_since(since, atomic_load(&tenths)), 0, ROWEN_WHOLE);
}

uint64_t rowen_tenant_granted_ns(void) {
    if (!rowen_place_count) return 0;
    for (;;) {
        uint32_t before = atomic_load(&version);
        uint64_t granted = atomic_load(&granted_ns);
        uint64_t since = atomic_load(&since_ns);
        uint32_t share = atomic_load(&tenths);
        if (before % 2 == 0 && atomic_load(&version) == before)
            return granted + (since ? granted_since(since, share) : 0);
        sched_yield();
    }
}
