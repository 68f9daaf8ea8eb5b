/* The thread that serves one device: it follows closes, and opens the gate again by the wake rule. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

#define SCAN_NS (100 * ROWEN_MS)
#define ACK_POLL_NS (500 * 1000ull)

static struct rowen_transition *transition_at(struct rowen_device_page *page, uint64_t number) {
    return &page->transitions[(number - 1) % ROWEN_TRANSITIONS];
}

static struct rowen_transition *current_transition(struct rowen_device_page *page) {
    return transition_at(page, atomic_load(&page->transitions_made));
}

/* Counts open time up to `until`. */
static void account(struct rowen_agent *agent, uint64_t until) {
    if (until <= agent->accounted_ns) return;
    uint64_t passed = until - agent->accounted_ns;
    agent->accounted_ns = until;
    struct rowen_device_page *page = agent->page;
    if (atomic_load(&page->online_attached)) atomic_fetch_add(&page->idle_ns, passed);
    if (atomic_load(&page->tenants)) atomic_fetch_add(&page->harvested_ns, passed);
    for (uint32_t i = 0; i < agent->tenant_pages; i++)
        if (atomic_load(&page->accounts[i].attached)) atomic_fetch_add(&page->accounts[i].open_ns, passed);
}

/* The closer stamps the time just after it has closed the gate; it may have died in between. */
static uint64_t closed_at(struct rowen_device_page *page) {
    uint64_t opened = atomic_load(&page->opened_at_ns);
    uint64_t begin = rowen_now();
    for (;;) {
        uint64_t closed = atomic_load(&page->closed_at_ns);
        if (closed >= opened) return closed;
        uint64_t now = rowen_now();
        if (now - begin > 100 * 1000) return now;
    }
}

static void begin_transition(struct rowen_agent *agent, uint32_t gate) {
    struct rowen_device_page *page = agent->page;
    uint64_t closed = closed_at(page);
    account(agent, closed);
    uint64_t number = atomic_load(&page->transitions_made) + 1;
    struct rowen_transition *transition = transition_at(page, number);
    atomic_store(&transition->number, 0);
    atomic_store(&transition->closed_ns, closed);
    atomic_store(&transition->ack_ns, 0);
    atomic_store(&transition->opened_ns, 0);
    atomic_store(&transition->tenants, 0);
    atomic_store(&transition->reason, agent->reason);
    atomic_store(&transition->number, number);
    atomic_store(&page->transitions_made, number);
    agent->reason = ROWEN_BUSY;
    agent->followed_gate = gate;
    agent->acknowledged = false;
}

static bool lease_valid(const struct rowen_device_page *page, uint64_t now) {
    return atomic_load((_Atomic uint64_t *)&page->lease_until_ns) > now;
}

static uint32_t in_flight(const struct rowen_device_page *page) {
    uint32_t sum = 0;
    for (int i = 0; i < ROWEN_ONLINE_SLOTS; i++) sum += atomic_load((_Atomic uint32_t *)&page->online[i].in_flight);
    return sum;
}

static void open_gate(struct rowen_agent *agent, uint64_t word, uint64_t now) {
    struct rowen_device_page *page = agent->page;
    uint64_t next = (word & ~(uint64_t)UINT32_MAX) | (uint32_t)((uint32_t)word + 1);
    if (!atomic_compare_exchange_strong(&page->gate, &word, next)) return;
    atomic_store(&page->opened_at_ns, now);
    agent->accounted_ns = now;
    atomic_store(&current_transition(page)->opened_ns, now);
    rowen_agent_continue(agent);
    rowen_wake(rowen_gate_futex(page), true);
}

/* The wake rule: opens after the device has been idle for the cooldown without a break; else waits a while. */
static void open_or_wait(struct rowen_agent *agent) {
    struct rowen_device_page *page = agent->page;
    uint32_t events = atomic_load(&page->idle_events);
    /* In this order: a request that arrives after the word was read makes the swap in open_gate() fail. */
    uint64_t word = atomic_load(&page->gate);
    uint32_t busy = in_flight(page);
    uint64_t idle_since = atomic_load(&page->idle_since_ns);
    uint64_t now = rowen_now();
    uint64_t gap = rowen_gap(page, now);
    uint64_t cooldown = 2 * gap > ROWEN_COOLDOWN_FLOOR_NS ? 2 * gap : ROWEN_COOLDOWN_FLOOR_NS;
    atomic_store(&page->cooldown_ns, cooldown);
    atomic_store(&page->in_flight, busy);
    uint64_t wait = SCAN_NS;
    if (busy == 0 && atomic_load(&page->online_attached) && lease_valid(page, now)) {
        uint64_t quiet_from = idle_since > agent->quiet_from_ns ? idle_since : agent->quiet_from_ns;
        if (now >= quiet_from + cooldown) {
            open_gate(agent, word, now);
            return;
        }
        if (quiet_from + cooldown - now < wait) wait = quiet_from + cooldown - now;
    }
    rowen_wait(&page->idle_events, events, wait, true);
}

static void serve_open(struct rowen_agent *agent, uint32_t gate) {
    struct rowen_device_page *page = agent->page;
    uint64_t now = rowen_now();
    account(agent, now);
    if (!lease_valid(page, now)) agent->reason = ROWEN_LEASE;
    else if (!atomic_load(&page->online_attached)) agent->reason = ROWEN_DETACHED;
    if (agent->reason == ROWEN_BUSY) {
        rowen_wait(rowen_gate_futex(page), gate, SCAN_NS, true);
    } else if (!rowen_close_gate(page, false)) {
        agent->reason = ROWEN_BUSY;
    }
}

static void serve_closed(struct rowen_agent *agent, uint32_t gate) {
    struct rowen_device_page *page = agent->page;
    if (agent->followed_gate != gate) begin_transition(agent, gate);
    if (agent->acknowledged) {
        open_or_wait(agent);
        return;
    }
    agent->acknowledged = rowen_agent_collect(agent, gate, current_transition(page));
    if (agent->acknowledged) return;
    struct timespec pause = {0, (long)ACK_POLL_NS};
    nanosleep(&pause, NULL);
}

/* A gate that the last agent left closed goes on as it was; its tenants have acknowledged or are asked again. */
static void adopt(struct rowen_agent *agent) {
    struct rowen_device_page *page = agent->page;
    uint64_t now = rowen_now();
    agent->accounted_ns = now;
    agent->quiet_from_ns = now;
    uint32_t gate = rowen_gate(page);
    if (!rowen_closed(gate)) {
        rowen_agent_continue(agent);
        return;
    }
    if (atomic_load(&page->transitions_made) && atomic_load(&current_transition(page)->opened_ns) == 0) {
        agent->followed_gate = gate;
        agent->acknowledged = atomic_load(&current_transition(page)->ack_ns) != 0;
    } else if (in_flight(page) == 0) {
        agent->reason = ROWEN_DETACHED;
    }
}

static void settle(const struct rowen_device_page *page) {
    cpu_set_t others;
    CPU_ZERO(&others);
    long count = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < count && cpu < CPU_SETSIZE; cpu++)
        if (!(page->cpus[cpu / 64] >> (cpu % 64) & 1)) CPU_SET(cpu, &others);
    if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
    struct sched_param param = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &param) != 0) setpriority(PRIO_PROCESS, 0, -20);
    pthread_setname_np(pthread_self(), "rowen-device");
}

void *rowen_agent_loop(void *argument) {
    struct rowen_agent *agent = argument;
    settle(agent->page);
    adopt(agent);
    while (!atomic_load(&agent->stop)) {
        uint64_t now = rowen_now();
        atomic_store(&agent->beat_ns, now);
        if (now - agent->scanned_ns >= SCAN_NS) {
            agent->scanned_ns = now;
            rowen_agent_scan(agent, now);
        }
        uint32_t gate = rowen_gate(agent->page);
        if (rowen_closed(gate)) serve_closed(agent, gate);
        else serve_open(agent, gate);
    }
    return NULL;
}
