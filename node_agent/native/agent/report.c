/* What engines and tenants write into their own files; it is theirs, and believed only as far as it can be. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"

#define GAP_WINDOW_NS (60 * ROWEN_SECOND)
#define GAP_PERIOD_NS (ROWEN_SECOND / 2)
#define OUTLIERS_PER_CENT 1 /* of the gaps, at least one */
#define MOST_OUTLIERS (1 + ROWEN_RING * OUTLIERS_PER_CENT / 100)

void rowen_report_gaps(struct rowen_agent *agent, struct rowen_member *member) {
    uint64_t made = atomic_load(&member->page->gaps_made);
    uint64_t number = rowen_first_number(member->gaps_read, made, ROWEN_GAPS);
    for (; number <= made && made - number < ROWEN_GAPS; number++) {
        const struct rowen_gap *gap = &member->page->gaps[(number - 1) % ROWEN_GAPS];
        struct rowen_gap *mine = &agent->gaps[agent->gaps_made++ % ROWEN_RING];
        atomic_store(&mine->at_ns, atomic_load((_Atomic uint64_t *)&gap->at_ns));
        atomic_store(&mine->gap_ns, atomic_load((_Atomic uint64_t *)&gap->gap_ns));
    }
    member->gaps_read = made;
}

/* Keeps the `most` largest of what is offered, the smallest of them first. */
static void offer(uint64_t *largest, uint32_t *count, uint32_t most, uint64_t value) {
    if (*count == most && value <= largest[0]) return;
    uint32_t at = *count < most ? (*count)++ : 0;
    if (at == 0 && *count == most && most > 1) memmove(largest, largest + 1, (most - 1) * sizeof *largest), at = most - 1;
    while (at > 0 && largest[at - 1] > value) {
        largest[at] = largest[at - 1];
        at--;
    }
    largest[at] = value;
}

static uint32_t gaps_within(const struct rowen_agent *agent, uint64_t after) {
    uint32_t within = 0;
    uint64_t kept = agent->gaps_made < ROWEN_RING ? agent->gaps_made : ROWEN_RING;
    for (uint64_t i = 0; i < kept; i++) within += atomic_load((_Atomic uint64_t *)&agent->gaps[i].at_ns) > after;
    return within;
}

/* The largest gap of the last minute, but for the largest hundredth of them, and at least one: a single hiccup of the
 * engine is no rhythm. */
static uint64_t robust_gap(const struct rowen_agent *agent, uint64_t now) {
    uint64_t after = now > GAP_WINDOW_NS ? now - GAP_WINDOW_NS : 0;
    uint64_t largest[MOST_OUTLIERS + 1];
    uint32_t count = 0, within = gaps_within(agent, after);
    uint32_t outliers = within / 100 * OUTLIERS_PER_CENT > 1 ? within / 100 * OUTLIERS_PER_CENT : 1;
    uint64_t kept = agent->gaps_made < ROWEN_RING ? agent->gaps_made : ROWEN_RING;
    for (uint64_t i = 0; i < kept; i++)
        if (atomic_load((_Atomic uint64_t *)&agent->gaps[i].at_ns) > after)
            offer(largest, &count, outliers + 1, atomic_load((_Atomic uint64_t *)&agent->gaps[i].gap_ns));
    return count > outliers ? largest[0] : 0;
}

uint64_t rowen_agent_gap(struct rowen_agent *agent, uint64_t now) {
    if (now - agent->gap_known_ns >= GAP_PERIOD_NS) {
        agent->gap_ns = robust_gap(agent, now);
        agent->gap_known_ns = now;
    }
    return agent->gap_ns;
}

/* Closes within the request's life that stopped somebody. Independent of what the engine thinks of its requests. */
static uint32_t preemptions_between(struct rowen_state *state, uint64_t begin, uint64_t end) {
    uint64_t made = atomic_load(&state->transitions_made);
    uint32_t count = 0;
    for (uint64_t number = made; number > 0 && made - number < ROWEN_RING; number--) {
        const struct rowen_transition *transition = rowen_transition_at(state, number);
        uint64_t closed = atomic_load((_Atomic uint64_t *)&transition->closed_ns);
        if (closed < begin) break;
        /* Beside a share nobody's work waited for those who had to stop. */
        bool stopped = atomic_load((_Atomic uint32_t *)&transition->tenants) &&
                       atomic_load((_Atomic uint32_t *)&transition->reason) != ROWEN_SHARED;
        count += closed <= end && stopped;
    }
    return count;
}

static void keep_request(struct rowen_state *state, const struct rowen_record *record) {
    uint64_t number = atomic_load(&state->requests_made) + 1;
    struct rowen_request *request = &state->requests[(number - 1) % ROWEN_RING];
    uint64_t begin = atomic_load((_Atomic uint64_t *)&record->begin_ns);
    uint64_t end = atomic_load((_Atomic uint64_t *)&record->end_ns);
    atomic_store(&request->number, 0);
    atomic_store(&request->begin_ns, begin);
    atomic_store(&request->end_ns, end);
    atomic_store(&request->ttft_ns, atomic_load((_Atomic uint64_t *)&record->ttft_ns));
    atomic_store(&request->tpot_ns, atomic_load((_Atomic uint64_t *)&record->tpot_ns));
    atomic_store(&request->output_tokens, atomic_load((_Atomic uint32_t *)&record->output_tokens));
    atomic_store(&request->tenant_present, atomic_load((_Atomic uint32_t *)&record->tenant_present));
    atomic_store(&request->preemptions, preemptions_between(state, begin, end));
    atomic_store(&request->number, number);
    atomic_store(&state->requests_made, number);
}

void rowen_report_requests(struct rowen_agent *agent, struct rowen_member *member) {
    /* Who was stopped by the current close is not known yet. */
    if (rowen_closed(rowen_gate(agent->page)) && !agent->acknowledged) return;
    uint64_t made = atomic_load(&member->page->records_made);
    uint64_t number = rowen_first_number(member->records_read, made, ROWEN_RECORDS);
    for (; number <= made && made - number < ROWEN_RECORDS; number++) {
        const struct rowen_record *record = &member->page->records[(number - 1) % ROWEN_RECORDS];
        if (atomic_load((_Atomic uint64_t *)&record->number) == number) keep_request(agent->state, record);
    }
    member->records_read = made;
}

static uint64_t difference(uint64_t value, uint64_t from) { return value > from ? value - from : 0; }

void rowen_report_progress(struct rowen_agent *agent, struct rowen_member *member) {
    struct rowen_progress *progress = &member->page->progress;
    struct rowen_account *account = &agent->state->accounts[member->slot];
    uint64_t reports = atomic_load(&progress->reports);
    if (reports == member->reports_read) return;
    member->reports_read = reports;
    atomic_store(&account->completed, atomic_load(&progress->completed));
    atomic_store(&account->total, atomic_load(&progress->total));
    atomic_store(&account->tokens, difference(atomic_load(&progress->tokens), atomic_load(&progress->first_tokens)));
    atomic_store(&account->granted_ns,
                 difference(atomic_load(&progress->granted_ns), atomic_load(&progress->first_granted_ns)));
    atomic_store(&account->reports, reports);
}
