/* The kernel's stop: a pod whose processes do not stop by themselves is frozen with its cgroup.
 *
 * An acknowledgement is a word of the tenant's. What it is worth shows in the CPU time that the pod uses while the gate
 * is closed, which the kernel counts, for every process and thread in it, whatever library it has loaded. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"

/* CPU time that a stopped pod's programs may use at once. The kernel charges a whole tick, of up to 10 ms, to whoever it
 * meets: two may be bad luck, and a control thread or two, or somebody in the middle of execve(), run a little. */
#define ALLOWED_NS (20 * ROWEN_MS)
/* And after some time of rest. */
#define MOST_NS (100 * ROWEN_MS)
/* A pod that is being started uses some before its processes load the library, whatever closes come meanwhile. */
#define START_NS (500 * ROWEN_MS)
#define STARTS_FOR_NS (10 * ROWEN_SECOND)
/* What the kernel may use for them: calls begun before the stop run to their end, and giving much memory back is one. */
#define MOST_CALLS_NS ROWEN_SECOND
/* Counting begins a tick of any kernel after the acknowledgement: what ran before it is accounted for by then. */
#define MARK_NS (10 * ROWEN_MS)
#define EARLY_NS (200 * ROWEN_MS)
#define EARLY_LOOK_NS (20 * ROWEN_MS)
#define LATER_LOOK_NS (100 * ROWEN_MS)
/* Frozen or not, the gate's transition does not wait longer for it: a thread in a driver may take for ever, and runs
 * nothing of its own. */
#define PATIENCE_NS ROWEN_SECOND
#define MOST_PROCESSES 256

/* Guards the list, and makes one step of "who else holds the pod" and thawing it. */
static pthread_mutex_t holds = PTHREAD_MUTEX_INITIALIZER;
static struct rowen_agent *agents;

void rowen_backstop_enlist(struct rowen_agent *agent) {
    pthread_mutex_lock(&holds);
    agent->next = agents;
    agents = agent;
    pthread_mutex_unlock(&holds);
}

void rowen_backstop_dismiss(struct rowen_agent *agent) {
    pthread_mutex_lock(&holds);
    struct rowen_agent **at = &agents;
    while (*at && *at != agent) at = &(*at)->next;
    if (*at) *at = agent->next;
    pthread_mutex_unlock(&holds);
}

static void note(struct rowen_slot *slot, uint64_t now) {
    struct rowen_usage usage;
    slot->restless_ns = 0;
    if (!slot->known || rowen_cgroup_usage(&slot->cgroup, &usage) != 0) return;
    bool keeps = slot->programs.left_ns > ALLOWED_NS && now < slot->adopted_ns + STARTS_FOR_NS;
    slot->programs = (struct rowen_allowance){keeps ? slot->programs.left_ns : ALLOWED_NS, usage.programs_ns};
    /* Not anew at each close: closes may follow each other quickly. */
    slot->calls.used_ns = usage.calls_ns;
    rowen_allowance_spend(&slot->calls, MOST_CALLS_NS, now - slot->spent_ns, usage.calls_ns);
    slot->spent_ns = now;
}

void rowen_backstop_note(struct rowen_agent *agent, uint64_t now) {
    for (uint32_t i = 0; i < agent->slots; i++) note(&agent->pods[i], now);
}

/* What the pod has done since the last look; the kernel accounts for it at its ticks, so it says little of a few
 * milliseconds. */
static enum rowen_offence spend(struct rowen_agent *agent, struct rowen_slot *slot, uint64_t now) {
    struct rowen_usage usage;
    if (agent->allows_cpu || rowen_cgroup_usage(&slot->cgroup, &usage) != 0) return ROWEN_NO_OFFENCE;
    uint64_t passed = now - slot->spent_ns;
    slot->spent_ns = now;
    bool programs = rowen_allowance_spend(&slot->programs, MOST_NS, passed, usage.programs_ns);
    bool calls = rowen_allowance_spend(&slot->calls, MOST_CALLS_NS, passed, usage.calls_ns);
    if (!programs) return ROWEN_RAN;
    return calls ? ROWEN_NO_OFFENCE : ROWEN_BLAMELESS;
}

enum rowen_offence rowen_backstop_silence(struct rowen_agent *agent, uint32_t index, uint64_t now) {
    struct rowen_slot *slot = &agent->pods[index];
    if (agent->allows_cpu || !slot->known || spend(agent, slot, now) == ROWEN_RAN) return ROWEN_UNACKNOWLEDGED;
    return ROWEN_BLAMELESS;
}

static bool holds_pod(const struct rowen_agent *agent, uint64_t pod) {
    for (uint32_t i = 0; i < agent->slots; i++)
        if (agent->pods[i].held && agent->pods[i].pod == pod) return true;
    return false;
}

static bool held_by_others(const struct rowen_agent *agent, uint64_t pod) {
    for (const struct rowen_agent *other = agents; other; other = other->next)
        if (other != agent && holds_pod(other, pod)) return true;
    return false;
}

bool rowen_backstop_elsewhere(const struct rowen_agent *agent, uint64_t pod) {
    bool found = false;
    pthread_mutex_lock(&holds);
    for (const struct rowen_agent *other = agents; other; other = other->next)
        for (uint32_t i = 0; other != agent && i < other->slots; i++)
            found |= other->pods[i].known && other->pods[i].pod == pod;
    pthread_mutex_unlock(&holds);
    return found;
}

void rowen_backstop_hold(struct rowen_agent *agent, uint32_t index, enum rowen_offence offence, pid_t offender) {
    struct rowen_slot *slot = &agent->pods[index];
    if (!slot->known || slot->held) return;
    struct rowen_account *account = &agent->state->accounts[index];
    pthread_mutex_lock(&holds);
    /* It is held here, too: the other device may open first. But it cannot answer, and what it did counts there. */
    if (held_by_others(agent, slot->pod)) offence = ROWEN_BLAMELESS;
    slot->held = true;
    slot->frozen = false;
    slot->held_ns = rowen_now();
    rowen_cgroup_freeze(&slot->cgroup);
    pthread_mutex_unlock(&holds);
    atomic_store(&account->offence, offence);
    atomic_store(&account->offender, offender);
    if (offence != ROWEN_BLAMELESS) atomic_fetch_add(&account->offences, 1);
    atomic_fetch_add(&account->backstops, 1);
    atomic_fetch_add(&agent->state->backstops, 1);
}

bool rowen_backstop_done(struct rowen_agent *agent, uint32_t index, uint64_t now) {
    struct rowen_slot *slot = &agent->pods[index];
    if (!slot->known || !slot->held || slot->frozen) return true;
    /* Anything but "not yet": frozen, or gone. */
    if (rowen_cgroup_frozen(&slot->cgroup) != 0 || now > slot->held_ns + PATIENCE_NS) slot->frozen = true;
    else rowen_cgroup_freeze(&slot->cgroup);
    return slot->frozen;
}

/* By a signal to the process as a whole, which is not taken back. One to a thread says nothing: execve() ends all others
 * of its process so. */
static bool has_to_die(pid_t pid) {
    char path[32], text[2048];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (!rowen_read(path, text, sizeof text)) return false;
    const char *name = "\nShdPnd:", *line = strstr(text, name);
    return line && strtoull(line + strlen(name), NULL, 16) >> (SIGKILL - 1) & 1;
}

/* With version 1 a frozen process does not take SIGKILL: a pod that is deleted would stay until the gate opens. Those
 * who have to die do so outside of it, and none of the others runs meanwhile. */
static void let_die(const struct rowen_slot *slot) {
    int32_t pids[MOST_PROCESSES];
    if (slot->cgroup.version != 1 || !slot->frozen) return;
    int32_t count = rowen_cgroup_processes(&slot->cgroup, pids, MOST_PROCESSES);
    for (int32_t i = 0; i < count && i < MOST_PROCESSES; i++)
        if (pids[i] > 0 && has_to_die(pids[i])) rowen_cgroup_put_out(&slot->cgroup, pids[i]);
}

static void look(struct rowen_agent *agent, uint32_t index, uint64_t now) {
    struct rowen_slot *slot = &agent->pods[index];
    if (!slot->known || !rowen_backstop_done(agent, index, now)) return;
    if (slot->held) {
        let_die(slot);
        return;
    }
    enum rowen_offence offence = spend(agent, slot, now);
    if (offence != ROWEN_NO_OFFENCE) rowen_backstop_hold(agent, index, offence, 0);
}

static void mark(struct rowen_agent *agent, uint64_t now) {
    if (!agent->marked) rowen_backstop_note(agent, now);
    agent->marked = true;
}

uint64_t rowen_backstop_watch(struct rowen_agent *agent, uint64_t now) {
    uint64_t since = now - agent->acknowledged_ns;
    if (since < MARK_NS) return MARK_NS - since;
    mark(agent, now);
    for (uint32_t i = 0; i < agent->slots; i++) look(agent, i, now);
    bool awaited = rowen_agent_chase(agent, agent->followed_gate, now);
    return awaited || since < EARLY_NS ? EARLY_LOOK_NS : LATER_LOOK_NS;
}

void rowen_backstop_glance(struct rowen_agent *agent, uint64_t closed_ns, uint64_t now) {
    if (now < closed_ns + agent->backstop_ns + MARK_NS) return;
    mark(agent, now);
    for (uint32_t i = 0; i < agent->slots; i++)
        if (!agent->pods[i].held && now - agent->pods[i].spent_ns >= EARLY_LOOK_NS) look(agent, i, now);
}

static void let_go(struct rowen_agent *agent, struct rowen_slot *slot) {
    pthread_mutex_lock(&holds);
    slot->held = slot->frozen = false;
    if (!held_by_others(agent, slot->pod)) rowen_cgroup_thaw(&slot->cgroup);
    pthread_mutex_unlock(&holds);
}

void rowen_backstop_release(struct rowen_agent *agent) {
    for (uint32_t i = 0; i < agent->slots; i++)
        if (agent->pods[i].held) let_go(agent, &agent->pods[i]);
}

void rowen_backstop_forget(struct rowen_agent *agent, uint32_t index) {
    struct rowen_slot *slot = &agent->pods[index];
    if (slot->held) let_go(agent, slot);
    if (slot->known) rowen_cgroup_close(&slot->cgroup);
    *slot = (struct rowen_slot){0};
}

void rowen_backstop_adopt(struct rowen_agent *agent, uint32_t index, uint64_t pod, const struct rowen_cgroup *cgroup) {
    struct rowen_slot *slot = &agent->pods[index];
    rowen_backstop_forget(agent, index);
    pthread_mutex_lock(&holds);
    uint64_t now = rowen_now();
    struct rowen_usage usage = {0};
    rowen_cgroup_usage(cgroup, &usage);
    *slot = (struct rowen_slot){.cgroup = *cgroup, .known = true, .pod = pod};
    slot->adopted_ns = slot->held_ns = slot->spent_ns = now;
    slot->programs = (struct rowen_allowance){START_NS, usage.programs_ns};
    slot->calls = (struct rowen_allowance){MOST_CALLS_NS, usage.calls_ns};
    slot->held = rowen_cgroup_requested(cgroup) == 1;
    slot->frozen = slot->held && rowen_cgroup_frozen(cgroup) == 1;
    pthread_mutex_unlock(&holds);
}
