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

/* CPU time that a stopped pod's programs may use. The kernel charges a whole tick, of up to 10 ms, to whoever it meets:
 * two may be bad luck, and a control thread or two, or somebody in the middle of execve(), run a little. */
#define ALLOWED_NS (20 * ROWEN_MS)
#define ALLOWED_FRACTION 20 /* a twentieth of the time since */
/* Counting begins a tick of any kernel after the acknowledgement: what ran before it is accounted for by then. */
#define MARK_NS (10 * ROWEN_MS)
#define EARLY_NS (200 * ROWEN_MS)
#define EARLY_LOOK_NS (20 * ROWEN_MS)
#define LATER_LOOK_NS (100 * ROWEN_MS)
/* Frozen or not, the gate's transition does not wait longer for it: a thread in a driver may take for ever, and runs
 * nothing of its own. */
#define PATIENCE_NS ROWEN_SECOND
#define DYING_NS (50 * ROWEN_MS)
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

/* Noted at a close; the kernel accounts for what runs at its ticks, so it says little of a few milliseconds. */
void rowen_backstop_note(struct rowen_agent *agent) {
    for (uint32_t i = 0; i < agent->slots; i++)
        if (agent->pods[i].known) rowen_cgroup_usage_ns(&agent->pods[i].cgroup, &agent->pods[i].usage_ns);
}

static bool ran(const struct rowen_slot *slot, uint64_t allowed_ns) {
    uint64_t usage;
    if (rowen_cgroup_usage_ns(&slot->cgroup, &usage) != 0 || usage < slot->usage_ns) return false;
    return usage - slot->usage_ns > allowed_ns;
}

void rowen_backstop_hold(struct rowen_agent *agent, uint32_t index, enum rowen_offence offence, pid_t offender) {
    struct rowen_slot *slot = &agent->pods[index];
    if (!slot->known || slot->held) return;
    struct rowen_account *account = &agent->state->accounts[index];
    if (offence == ROWEN_UNACKNOWLEDGED && !agent->allows_cpu && !ran(slot, ALLOWED_NS)) offence = ROWEN_LATE;
    pthread_mutex_lock(&holds);
    slot->held = true;
    slot->frozen = false;
    slot->held_ns = rowen_now();
    rowen_cgroup_freeze(&slot->cgroup);
    pthread_mutex_unlock(&holds);
    atomic_store(&account->offence, offence);
    atomic_store(&account->offender, offender);
    atomic_store(&account->frozen, 1);
    atomic_fetch_add(&account->backstops, 1);
    atomic_fetch_add(&agent->state->backstops, 1);
}

bool rowen_backstop_done(struct rowen_agent *agent, uint32_t index, uint64_t now) {
    struct rowen_slot *slot = &agent->pods[index];
    if (!slot->known || !slot->held || slot->frozen || now < slot->thawed_until_ns) return true;
    /* Anything but "not yet": frozen, or gone. */
    if (rowen_cgroup_frozen(&slot->cgroup) != 0 || now > slot->held_ns + PATIENCE_NS) slot->frozen = true;
    else rowen_cgroup_freeze(&slot->cgroup);
    return slot->frozen;
}

static bool has_to_die(pid_t pid) {
    char path[32], text[2048];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (!rowen_read(path, text, sizeof text)) return false;
    const char *names[] = {"\nSigPnd:", "\nShdPnd:"};
    for (int i = 0; i < 2; i++) {
        const char *line = strstr(text, names[i]);
        if (line && strtoull(line + strlen(names[i]), NULL, 16) >> (SIGKILL - 1) & 1) return true;
    }
    return false;
}

/* With version 1 a frozen process does not take SIGKILL: a pod that is deleted would stay until the gate opens. It is
 * thawed for a moment in which the killed ones end; what else runs then is stopped again. */
static void let_die(struct rowen_slot *slot, uint64_t now) {
    int32_t pids[MOST_PROCESSES];
    if (slot->cgroup.version != 1 || !slot->frozen || now < slot->thawed_until_ns) return;
    int32_t count = rowen_cgroup_processes(&slot->cgroup, pids, MOST_PROCESSES);
    for (int32_t i = 0; i < count && i < MOST_PROCESSES; i++) {
        if (pids[i] <= 0 || !has_to_die(pids[i])) continue;
        rowen_cgroup_thaw(&slot->cgroup);
        slot->frozen = false;
        slot->thawed_until_ns = now + DYING_NS;
        slot->held_ns = slot->thawed_until_ns;
        return;
    }
}

static void look(struct rowen_agent *agent, uint32_t index, uint64_t now) {
    struct rowen_slot *slot = &agent->pods[index];
    uint64_t allowed = ALLOWED_NS + (now - agent->acknowledged_ns) / ALLOWED_FRACTION;
    if (!slot->known || !rowen_backstop_done(agent, index, now)) return;
    if (slot->held) {
        let_die(slot, now);
        return;
    }
    if (!agent->allows_cpu && ran(slot, allowed)) rowen_backstop_hold(agent, index, ROWEN_RAN, 0);
}

uint64_t rowen_backstop_watch(struct rowen_agent *agent, uint64_t now) {
    uint64_t since = now - agent->acknowledged_ns;
    if (since < MARK_NS) return MARK_NS - since;
    if (!agent->marked) rowen_backstop_note(agent);
    agent->marked = true;
    for (uint32_t i = 0; i < agent->slots; i++) look(agent, i, now);
    return since < EARLY_NS ? EARLY_LOOK_NS : LATER_LOOK_NS;
}

static bool holds_pod(const struct rowen_agent *agent, uint64_t pod) {
    for (uint32_t i = 0; i < agent->slots; i++)
        if (agent->pods[i].held && agent->pods[i].pod == pod) return true;
    return false;
}

static void let_go(struct rowen_agent *agent, struct rowen_slot *slot) {
    pthread_mutex_lock(&holds);
    slot->held = slot->frozen = false;
    slot->thawed_until_ns = 0;
    bool free = true;
    for (const struct rowen_agent *other = agents; other; other = other->next)
        if (other != agent && holds_pod(other, slot->pod)) free = false;
    if (free) rowen_cgroup_thaw(&slot->cgroup);
    pthread_mutex_unlock(&holds);
}

void rowen_backstop_release(struct rowen_agent *agent) {
    for (uint32_t i = 0; i < agent->slots; i++) {
        if (!agent->pods[i].held) continue;
        let_go(agent, &agent->pods[i]);
        atomic_store(&agent->state->accounts[i].frozen, 0);
    }
}

void rowen_backstop_forget(struct rowen_agent *agent, uint32_t index) {
    struct rowen_slot *slot = &agent->pods[index];
    if (slot->held) let_go(agent, slot);
    if (slot->known) rowen_cgroup_close(&slot->cgroup);
    *slot = (struct rowen_slot){0};
}
