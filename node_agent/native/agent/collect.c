/* Awaits the acknowledgements of a close, and turns to the kernel for those who do not answer. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "agent/device.h"

#define LIVENESS_NS (5 * ROWEN_MS) /* without an answer for so long, the process may be dead */
#define FLAG_EXITING 4u            /* PF_EXITING, in the flags of /proc/<pid>/stat */

static bool thread_ends(pid_t pid, const char *tid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)pid, tid);
    const char *rest = rowen_stat(path, text, sizeof text);
    if (!rest) return true;
    char state;
    unsigned flags;
    /* State, five numbers, flags. */
    if (sscanf(rest, ") %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2) return false;
    return state == 'Z' || state == 'X' || (flags & FLAG_EXITING);
}

/* Whether every thread is on its way out: none executes an instruction of its own any more, though giving memory back
 * may take the process long, on a CPU that others use. */
static bool process_ends(pid_t pid) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (!tasks) return errno == ENOENT;
    bool ends = true;
    for (struct dirent *entry; ends && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.') ends = thread_ends(pid, entry->d_name);
    closedir(tasks);
    return ends;
}

static bool gone_or_going(const struct rowen_member *member) {
    struct pollfd process = {.fd = member->pidfd, .events = POLLIN};
    return poll(&process, 1, 0) > 0 || process_ends(member->pid);
}

struct answers {
    uint64_t last_ns;
    uint32_t count, per_slot[ROWEN_TENANT_SLOTS];
    bool pending;
};

static void count(struct answers *answers, int32_t slot, uint64_t at_ns) {
    if (at_ns > answers->last_ns) answers->last_ns = at_ns;
    answers->count++;
    answers->per_slot[slot]++;
}

static void await_member(struct rowen_agent *agent, struct rowen_member *member, uint32_t gate, uint64_t closed,
                         struct answers *answers) {
    struct rowen_member_block *block = &member->page->block;
    if (member->state != ROWEN_ATTACHED || atomic_load(&block->control_tid) == 0) return;
    uint64_t now = rowen_now();
    struct rowen_slot *slot = &agent->pods[member->slot];
    if (atomic_load(&block->ack) == gate) {
        member->stood_gate = gate;
        uint64_t at = atomic_load(&block->ack_ns);
        count(answers, member->slot, at < closed || at > now ? now : at);
    } else if (slot->held) {
        if (slot->frozen) count(answers, member->slot, now);
    } else if (atomic_load(&block->fault) == ROWEN_HANDLER_REPLACED) {
        rowen_backstop_hold(agent, (uint32_t)member->slot, ROWEN_REPLACED_HANDLER, member->pid);
    } else if (now - closed > LIVENESS_NS && gone_or_going(member)) {
        return;
    } else if (now - closed >= agent->backstop_ns) {
        uint32_t index = (uint32_t)member->slot;
        rowen_backstop_hold(agent, index, rowen_backstop_silence(agent, index, now), member->pid);
    } else {
        answers->pending = true;
        rowen_agent_raise(agent, member); /* it may have started since the last look */
    }
}

bool rowen_agent_collect(struct rowen_agent *agent, uint32_t gate, struct rowen_transition *transition) {
    uint64_t closed = atomic_load(&transition->closed_ns);
    struct answers answers = {.last_ns = closed};
    uint64_t now = rowen_now();
    for (uint32_t i = 0; i < agent->slots; i++)
        if (!rowen_backstop_done(agent, i, now)) answers.pending = true;
    ROWEN_FOR_MEMBERS(agent, member)
        if (member->slot != ROWEN_ENGINE) await_member(agent, member, gate, closed, &answers);
    for (uint32_t i = 0; i < agent->slots; i++)
        if (!rowen_backstop_done(agent, i, now)) answers.pending = true;
    if (answers.pending) return false;
    atomic_store(&transition->tenants, answers.count);
    atomic_store(&transition->ack_ns, answers.last_ns);
    for (uint32_t i = 0; i < agent->slots; i++)
        if (answers.per_slot[i]) atomic_fetch_add(&agent->state->accounts[i].preemptions, 1);
    if (answers.count && atomic_load(&transition->reason) == ROWEN_BUSY) atomic_fetch_add(&agent->state->preemptions, 1);
    return true;
}

/* Whether the process keeps its slot from standing still. What cannot be an accident has its pod held at once. */
static bool is_restless(struct rowen_agent *agent, struct rowen_member *member, uint32_t gate) {
    struct rowen_member_block *block = &member->page->block;
    bool stands = atomic_load(&block->ack) == gate;
    if (stands) member->stood_gate = gate;
    stands = stands || atomic_load(&block->control_tid) == 0;
    member->ends = !stands && gone_or_going(member);
    if (stands || member->ends) return false;
    uint32_t index = (uint32_t)member->slot;
    if (member->stood_gate == gate) rowen_backstop_hold(agent, index, ROWEN_UNACKNOWLEDGED, member->pid);
    if (atomic_load(&block->fault) == ROWEN_HANDLER_REPLACED)
        rowen_backstop_hold(agent, index, ROWEN_REPLACED_HANDLER, member->pid);
    rowen_agent_raise(agent, member); /* it may have started since the last look */
    return true;
}

bool rowen_agent_chase(struct rowen_agent *agent, uint32_t gate, uint64_t now) {
    pid_t restless[ROWEN_TENANT_SLOTS] = {0};
    bool any = false;
    ROWEN_FOR_MEMBERS(agent, member) {
        if (member->slot == ROWEN_ENGINE || member->state != ROWEN_ATTACHED || agent->pods[member->slot].held) continue;
        if (is_restless(agent, member, gate)) restless[member->slot] = member->pid;
    }
    for (uint32_t i = 0; i < agent->slots; i++) {
        /* By the slot and not by the process: one may follow another, or the same one attach again and again. */
        struct rowen_slot *slot = &agent->pods[i];
        if (!restless[i] || !slot->known || slot->held) slot->restless_ns = 0;
        else if (slot->restless_ns == 0) slot->restless_ns = now;
        else if (now - slot->restless_ns >= agent->backstop_ns)
            rowen_backstop_hold(agent, i, rowen_backstop_silence(agent, i, now), restless[i]);
        any = any || slot->restless_ns;
    }
    return any;
}
