/* The thread that serves one device: it follows closes, and opens the gate again by the wake rule. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/device.h"
#include "memory/pool/pool.h"

#define SCAN_NS (100 * ROWEN_MS)
#define ACK_POLL_NS (500 * 1000ull)
/* The gate closes for memory alone at most once in so long a time, and waits for so long at most until it is taken. */
#define MEMORY_PERIOD_NS ROWEN_SECOND
#define MEMORY_WAIT_NS (100 * ROWEN_MS)
#define SETTLE_NS (500 * ROWEN_MS)

/* What the thread waits for, with the device's lock let go. */
struct pause {
    _Atomic uint32_t *word; /* NULL: for the time alone */
    uint32_t value;
    uint64_t timeout_ns;
};

static struct rowen_transition *current_transition(struct rowen_agent *agent) {
    return rowen_transition_at(agent->state, atomic_load(&agent->state->transitions_made));
}

/* Counts open time up to `until`, by the share. */
static void account(struct rowen_agent *agent, uint64_t until) {
    if (until <= agent->accounted_ns) return;
    uint64_t passed = until - agent->accounted_ns;
    agent->accounted_ns = until;
    struct rowen_state *state = agent->state;
    if (agent->share && atomic_load(&agent->engines)) atomic_fetch_add(&state->shared_ns, passed);
    if (agent->share) passed = passed * agent->share / ROWEN_WHOLE;
    if (atomic_load(&agent->engines)) atomic_fetch_add(&state->idle_ns, passed);
    if (atomic_load(&agent->page->tenants)) atomic_fetch_add(&state->harvested_ns, passed);
    for (uint32_t i = 0; i < agent->slots; i++)
        if (atomic_load(&state->accounts[i].attached)) atomic_fetch_add(&state->accounts[i].open_ns, passed);
}

/* The closer stamps the time just after it has closed the gate; it may have died in between. */
static uint64_t closed_at(const struct rowen_gate_block *block) {
    uint64_t opened = atomic_load((_Atomic uint64_t *)&block->opened_at_ns);
    uint64_t begin = rowen_now();
    for (;;) {
        uint64_t closed = atomic_load((_Atomic uint64_t *)&block->closed_at_ns);
        uint64_t now = rowen_now();
        /* Engines can write the stamp: one from the future is none. */
        if (closed >= opened && closed <= now) return closed;
        if (now - begin > 100 * 1000) return now;
    }
}

static void begin_transition(struct rowen_agent *agent, uint32_t gate) {
    struct rowen_state *state = agent->state;
    uint64_t closed = closed_at(&agent->page->block);
    account(agent, closed);
    if (agent->share) {
        /* Those who are out of time until the next period might be late to acknowledge. */
        rowen_share_lift(agent);
        agent->reason = ROWEN_SHARED;
        agent->share = 0;
    }
    uint64_t number = atomic_load(&state->transitions_made) + 1;
    struct rowen_transition *transition = rowen_transition_at(state, number);
    atomic_store(&transition->number, 0);
    atomic_store(&transition->closed_ns, closed);
    atomic_store(&transition->ack_ns, 0);
    atomic_store(&transition->opened_ns, 0);
    atomic_store(&transition->share, 0);
    atomic_store(&transition->tenants, 0);
    atomic_store(&transition->reason, agent->reason);
    atomic_store(&transition->number, number);
    atomic_store(&state->transitions_made, number);
    agent->reason = ROWEN_BUSY;
    agent->followed_gate = gate;
    agent->acknowledged = false;
    agent->marked = false;
    rowen_backstop_note(agent, rowen_now());
}

/* What the last agent left without an end, ends where this one's begin. */
static void end_transition(struct rowen_agent *agent, uint64_t now) {
    if (atomic_load(&agent->state->transitions_made) == 0) return;
    struct rowen_transition *last = current_transition(agent);
    if (atomic_load(&last->opened_ns) == 0) atomic_store(&last->opened_ns, now);
}

static bool lease_valid(struct rowen_agent *agent, uint64_t now) {
    return atomic_load(&agent->page->block.lease_until_ns) > now;
}

/* `share`: tenths of the device, to which the pods are limited; 0: all of it. */
static void open_gate(struct rowen_agent *agent, uint64_t word, uint64_t now, uint32_t share) {
    struct rowen_gate_block *block = &agent->page->block;
    if (agent->pool) rowen_pool_settle(agent->pool);
    atomic_store(&agent->page->share, share);
    uint64_t next = (word & ~(uint64_t)UINT32_MAX) | (uint32_t)((uint32_t)word + 1);
    if (!atomic_compare_exchange_strong(&block->gate, &word, next)) {
        rowen_share_lift(agent);
        return;
    }
    atomic_store(&block->opened_at_ns, now);
    agent->accounted_ns = now;
    agent->share = share;
    atomic_store(&current_transition(agent)->share, share);
    atomic_store(&current_transition(agent)->opened_ns, now);
    rowen_backstop_release(agent);
    rowen_wake(rowen_gate_futex(agent->page), true);
}

static uint64_t cooldown(struct rowen_agent *agent, uint64_t now) {
    uint64_t wanted = 2 * rowen_agent_gap(agent, now);
    if (wanted < ROWEN_COOLDOWN_FLOOR_NS) wanted = ROWEN_COOLDOWN_FLOOR_NS;
    if (wanted > ROWEN_COOLDOWN_CEILING_NS) wanted = ROWEN_COOLDOWN_CEILING_NS;
    atomic_store(&agent->cooldown_ns, wanted);
    return wanted;
}

/* What a pod has for itself is in use already: it cannot wait for the next request, as an engine's headroom can. */
static bool lacks_memory(struct rowen_agent *agent) { return agent->pool && rowen_pool_lacks(agent->pool); }

/* Beside requests that headroom cannot wait either: the next stop may be far. */
static bool owes_memory(struct rowen_agent *agent) { return agent->pool && rowen_pool_owes(agent->pool); }

/* The wake rule: for all of the device the gate opens once that has been idle for the cooldown without a break.
 * Nanoseconds until then, with nothing in flight; 0: now. */
static uint64_t until_idle(struct rowen_agent *agent, uint64_t now) {
    uint64_t quiet = cooldown(agent, now), from = rowen_agent_idle_since(agent);
    if (from > now) from = now; /* an engine's word */
    if (from < agent->quiet_from_ns) from = agent->quiet_from_ns;
    if (from < agent->settled_ns) from = agent->settled_ns;
    return from + quiet > now ? from + quiet - now : 0;
}

/* Opens by the wake rule, or beside requests at the share that the engine says; else waits a while. */
static struct pause open_or_wait(struct rowen_agent *agent) {
    struct rowen_gate_block *block = &agent->page->block;
    uint32_t events = atomic_load(&block->events);
    /* In this order: a request that arrives after the word was read makes the swap in open_gate() fail. */
    uint64_t word = atomic_load(&block->gate);
    uint32_t busy = rowen_agent_in_flight(agent);
    uint64_t now = rowen_now();
    uint64_t idle_in = until_idle(agent, now);
    uint64_t wait = rowen_backstop_watch(agent, now);
    atomic_store(&agent->in_flight, busy);
    bool may_open = atomic_load(&agent->engines) && lease_valid(agent, now);
    if (may_open && busy) {
        uint32_t share = now < agent->settled_ns ? 0 : rowen_share_said(agent, word);
        if (share && !owes_memory(agent) && rowen_share_limit(agent, share)) {
            open_gate(agent, word, now, share);
            return (struct pause){0};
        }
    } else if (may_open && idle_in == 0) {
        if (now < agent->acknowledged_ns + MEMORY_WAIT_NS && lacks_memory(agent))
            return (struct pause){NULL, 0, ACK_POLL_NS};
        open_gate(agent, word, now, 0);
        return (struct pause){0};
    } else if (may_open && idle_in < wait) {
        wait = idle_in;
    }
    return (struct pause){&block->events, events, wait < SCAN_NS ? wait : SCAN_NS};
}

/* Closes when another share is said, when the engine wants memory, and when it is idle: then all of the device may be
 * had. */
static struct pause serve_share(struct rowen_agent *agent, uint32_t gate, uint64_t now) {
    uint32_t busy = rowen_agent_in_flight(agent);
    uint64_t wait = busy ? SCAN_NS : until_idle(agent, now);
    atomic_store(&agent->in_flight, busy);
    if (busy && !rowen_share_holds(agent)) wait = 0;
    if (wait && !owes_memory(agent))
        return (struct pause){rowen_gate_futex(agent->page), gate, wait < SCAN_NS ? wait : SCAN_NS};
    rowen_close_gate(agent->page, false);
    return (struct pause){0};
}

static struct pause serve_open(struct rowen_agent *agent, uint32_t gate) {
    uint64_t now = rowen_now();
    rowen_backstop_release(agent); /* a pod that came since, which the last agent had stopped */
    account(agent, now);
    if (!lease_valid(agent, now)) agent->reason = ROWEN_LEASE;
    else if (!atomic_load(&agent->engines)) agent->reason = ROWEN_DETACHED;
    else if (agent->share) return serve_share(agent, gate, now);
    else if (rowen_agent_in_flight(agent) == 0) {
        if (now - agent->memory_ns < MEMORY_PERIOD_NS || !lacks_memory(agent))
            return (struct pause){rowen_gate_futex(agent->page), gate, SCAN_NS};
        agent->reason = ROWEN_MEMORY;
        agent->memory_ns = now;
    }
    /* With requests in flight it was opened by somebody who may not. */
    if (!rowen_close_gate(agent->page, false)) agent->reason = ROWEN_BUSY;
    return (struct pause){0};
}

static struct pause serve_closed(struct rowen_agent *agent, uint32_t gate) {
    if (agent->followed_gate != gate) begin_transition(agent, gate);
    if (!agent->acknowledged) {
        agent->acknowledged = rowen_agent_collect(agent, gate, current_transition(agent));
        agent->acknowledged_ns = rowen_now();
        if (!agent->acknowledged) {
            rowen_backstop_glance(agent, atomic_load(&current_transition(agent)->closed_ns), agent->acknowledged_ns);
            return (struct pause){NULL, 0, ACK_POLL_NS};
        }
    }
    return open_or_wait(agent);
}

static void settle(struct rowen_device_page *page) {
    cpu_set_t others;
    CPU_ZERO(&others);
    long count = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < count && cpu < CPU_SETSIZE; cpu++)
        if (!(atomic_load(&page->cpus[cpu / 64]) >> (cpu % 64) & 1)) CPU_SET(cpu, &others);
    if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
    struct sched_param param = {.sched_priority = ROWEN_AGENT_PRIORITY};
    if (sched_setscheduler(0, SCHED_FIFO, &param) != 0) setpriority(PRIO_PROCESS, 0, -20);
    pthread_setname_np(pthread_self(), "rowen-device");
}

static struct pause come_round(struct rowen_agent *agent) {
    uint64_t now = rowen_now();
    atomic_store(&agent->beat_ns, now);
    if (now - agent->scanned_ns >= SCAN_NS) rowen_agent_scan(agent, now);
    uint32_t gate = rowen_gate(agent->page);
    return rowen_closed(gate) ? serve_closed(agent, gate) : serve_open(agent, gate);
}

/* Not under the device's lock: a round takes longer the more handles there are. */
static void serve_memory(struct rowen_agent *agent, bool stopped) {
    if (agent->pool) rowen_pool_serve(agent->pool, stopped, rowen_now());
}

/* Events count while the gate is open, too, where an engine may want memory, or beside a share turn idle or want
 * another. */
static void wait(struct rowen_agent *agent, const struct pause *pause, uint32_t events) {
    _Atomic uint32_t nothing = 0;
    if (!pause->word) {
        rowen_wait(&nothing, 0, pause->timeout_ns, true);
        return;
    }
    _Atomic uint32_t *words[2] = {pause->word, &agent->page->block.events};
    uint32_t values[2] = {pause->value, events};
    bool both = words[0] != words[1] && (agent->pool || agent->share);
    rowen_wait_any(words, values, both ? 2 : 1, pause->timeout_ns);
}

void *rowen_agent_loop(void *argument) {
    struct rowen_agent *agent = argument;
    settle(agent->page);
    agent->accounted_ns = rowen_now();
    /* Engines of the last agent get time to find this one. */
    agent->settled_ns = agent->accounted_ns + SETTLE_NS;
    agent->reason = ROWEN_DETACHED;
    end_transition(agent, agent->accounted_ns);
    while (!atomic_load(&agent->stop)) {
        uint32_t events = atomic_load(&agent->page->block.events);
        pthread_mutex_lock(&agent->lock);
        struct pause pause = come_round(agent);
        bool stopped = agent->pool && rowen_agent_stopped(agent, rowen_now());
        pthread_mutex_unlock(&agent->lock);
        serve_memory(agent, stopped);
        bool hurries = agent->share && owes_memory(agent);
        if (pause.timeout_ns && !hurries) wait(agent, &pause, events);
    }
    return NULL;
}
