/* The online side: an engine says when it is busy, to all of its devices. Nothing here waits for anybody outside the
 * process. */
#define _GNU_SOURCE
#include "online/online.h"

#include <errno.h>

#include "memory/arena/loan.h"

/* Closes every gate before anybody is woken: a control thread that runs at once, on this very CPU, would else keep the
 * later ones open for as long as it takes to stop its process. True if this call has closed one. */
static bool close_all(void) {
    bool closed[ROWEN_ENGINE_DEVICES] = {false}, any = false;
    ROWEN_FOR_ATTACHED(place) closed[place - rowen_engine.places] = rowen_shut_gate(place->link.device, true);
    ROWEN_FOR_ATTACHED(place)
        if (closed[place - rowen_engine.places]) {
            rowen_wake(rowen_gate_futex(place->link.device), true);
            any = true;
        }
    return any;
}

int32_t rowen_online_busy(void) {
    pthread_mutex_lock(&rowen_engine.lock);
    rowen_engine.in_flight++;
    /* Before the gate words: whoever sees this call's count there also sees the request. */
    ROWEN_FOR_ATTACHED(place) atomic_store(&place->link.member->block.in_flight, rowen_engine.in_flight);
    bool closed = close_all();
    pthread_mutex_unlock(&rowen_engine.lock);
    return closed;
}

void rowen_online_idle(void) {
    pthread_mutex_lock(&rowen_engine.lock);
    if (rowen_engine.in_flight > 0 && --rowen_engine.in_flight == 0) rowen_engine.idle_since_ns = rowen_now();
    ROWEN_FOR_ATTACHED(place) {
        struct rowen_member_block *block = &place->link.member->block;
        /* In this order: who sees nothing in flight also sees since when. */
        atomic_store(&block->idle_since_ns, rowen_engine.idle_since_ns);
        atomic_store(&block->in_flight, rowen_engine.in_flight);
        if (rowen_engine.in_flight == 0) rowen_engine_tell(place);
    }
    pthread_mutex_unlock(&rowen_engine.lock);
}

static void note_gap(struct rowen_member_page *member, uint64_t at_ns, uint64_t gap_ns) {
    uint64_t made = atomic_load(&member->gaps_made);
    struct rowen_gap *gap = &member->gaps[made % ROWEN_GAPS];
    atomic_store(&gap->at_ns, at_ns);
    atomic_store(&gap->gap_ns, gap_ns);
    atomic_store(&member->gaps_made, made + 1);
}

void rowen_online_step(uint64_t begin_ns, uint64_t end_ns) {
    pthread_mutex_lock(&rowen_engine.lock);
    uint64_t previous = rowen_engine.step_end_ns;
    /* What follows a step that leaves nothing in flight is a pause between requests. */
    rowen_engine.step_end_ns = rowen_engine.in_flight ? end_ns : 0;
    bool within = previous != 0 && begin_ns > previous && rowen_engine.idle_since_ns <= previous;
    /* The same to all: so their gates open together. */
    if (within) ROWEN_FOR_ATTACHED(place) note_gap(place->link.member, begin_ns, begin_ns - previous);
    pthread_mutex_unlock(&rowen_engine.lock);
}

void rowen_engine_compose(struct rowen_member_page *member) {
    rowen_composition_copy(&member->composition, &rowen_engine.composition);
}

void rowen_online_composition(uint64_t step_ns, uint32_t decode_rows, uint32_t prefill_tokens) {
    pthread_mutex_lock(&rowen_engine.lock);
    struct rowen_composition *sums = &rowen_engine.composition;
    sums->steps++;
    sums->step_ns += step_ns;
    sums->decode_rows += decode_rows;
    sums->prefill_tokens += prefill_tokens;
    ROWEN_FOR_ATTACHED(place) rowen_engine_compose(place->link.member);
    pthread_mutex_unlock(&rowen_engine.lock);
}

/* Less than is open is had at once. More, or the same again, is the agent's to give: it may be open for less, as another
 * engine said that. */
static void say_share(struct rowen_engine_place *place, uint32_t tenths) {
    struct rowen_device_page *device = place->link.device;
    uint64_t busy = atomic_load(&device->block.gate) >> 32, said = busy << 32 | (1 + tenths);
    bool news = atomic_exchange(&place->link.member->share, said) != said;
    /* After that: either this call sees that the gate is open, or the agent sees its word. */
    bool closed = rowen_closed(rowen_gate(device));
    uint32_t open = atomic_load(&device->share);
    if (!closed && open > tenths) rowen_close_gate(device, false);
    else if (news && (closed ? tenths : open)) rowen_engine_tell(place);
}

void rowen_online_share(uint32_t tenths) {
    if (tenths >= ROWEN_WHOLE) tenths = ROWEN_WHOLE - 1;
    pthread_mutex_lock(&rowen_engine.lock);
    ROWEN_FOR_ATTACHED(place) say_share(place, tenths);
    pthread_mutex_unlock(&rowen_engine.lock);
}

static uint32_t granted_by(const struct rowen_device_page *device) {
    uint32_t gate = rowen_gate(device);
    uint32_t share = atomic_load((_Atomic uint32_t *)&device->share);
    uint64_t lease = atomic_load((_Atomic uint64_t *)&device->block.lease_until_ns);
    /* The share is that of the opening which was seen. */
    if (rowen_closed(gate) || rowen_gate(device) != gate || lease <= rowen_now()) return 0;
    return share ? share : ROWEN_WHOLE;
}

uint32_t rowen_online_granted(void) {
    uint32_t least = ROWEN_WHOLE;
    bool any = false;
    ROWEN_FOR_ATTACHED(place) {
        uint32_t granted = granted_by(place->link.device);
        if (granted < least) least = granted;
        any = true;
    }
    return any ? least : 0;
}

uint32_t rowen_online_leased(void) {
    uint64_t now = rowen_now();
    ROWEN_FOR_ENGINE_PLACES(place)
        if (!atomic_load(&place->attached) || atomic_load(&place->link.device->block.lease_until_ns) <= now) return 0;
    return atomic_load(&rowen_engine.count) > 0;
}

struct request {
    uint64_t begin_ns, end_ns, ttft_ns, tpot_ns;
    uint32_t output_tokens, tenant_present;
};

static void note_request(struct rowen_member_page *member, const struct request *request) {
    uint64_t number = atomic_load(&member->records_made) + 1;
    struct rowen_record *record = &member->records[(number - 1) % ROWEN_RECORDS];
    atomic_store(&record->number, 0);
    atomic_store(&record->begin_ns, request->begin_ns);
    atomic_store(&record->end_ns, request->end_ns);
    atomic_store(&record->ttft_ns, request->ttft_ns);
    atomic_store(&record->tpot_ns, request->tpot_ns);
    atomic_store(&record->output_tokens, request->output_tokens);
    atomic_store(&record->tenant_present, request->tenant_present);
    atomic_store(&record->number, number);
    atomic_store(&member->records_made, number);
}

void rowen_online_record(uint64_t begin_ns, uint64_t ttft_ns, uint64_t tpot_ns, uint32_t output_tokens,
                         uint32_t tenant_present) {
    pthread_mutex_lock(&rowen_engine.lock);
    struct request request = {begin_ns, rowen_now(), ttft_ns, tpot_ns, output_tokens, tenant_present};
    ROWEN_FOR_ATTACHED(place) note_request(place->link.member, &request);
    pthread_mutex_unlock(&rowen_engine.lock);
}

struct rowen_arena *rowen_online_memory(uint32_t capacity, int32_t *error) {
    struct rowen_engine_place *place = rowen_engine.places;
    bool several = atomic_load(&rowen_engine.count) > 1;
    *error = several ? -EOPNOTSUPP : -ENOTCONN;
    return !several && atomic_load(&place->attached) ? rowen_loan_open(&place->link, capacity, error) : NULL;
}

void rowen_online_fail(void) {
    pthread_mutex_lock(&rowen_engine.lock);
    rowen_engine.failed = true;
    ROWEN_FOR_ATTACHED(place) atomic_store(&place->link.member->failed, true);
    close_all();
    ROWEN_FOR_ATTACHED(place) rowen_engine_tell(place);
    pthread_mutex_unlock(&rowen_engine.lock);
}

uint32_t rowen_online_tenants(void) {
    uint32_t sum = 0;
    ROWEN_FOR_ATTACHED(place)
        sum += atomic_load(&place->link.device->tenants) + atomic_load(&place->link.device->riders);
    return sum;
}
