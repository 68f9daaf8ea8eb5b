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
        uint64_t at = atomic_load(&block->ack_ns);
        count(answers, member->slot, at < closed || at > now ? now : at);
    } else if (slot->held) {
        if (slot->frozen) count(answers, member->slot, now);
    } else if (atomic_load(&block->fault) == ROWEN_HANDLER_REPLACED) {
        rowen_backstop_hold(agent, (uint32_t)member->slot, ROWEN_REPLACED_HANDLER, member->pid);
    } else if (now - closed > LIVENESS_NS && gone_or_going(member)) {
        return;
    } else if (now - closed >= agent->backstop_ns) {
        rowen_backstop_hold(agent, (uint32_t)member->slot, ROWEN_UNACKNOWLEDGED, member->pid);
    } else {
        answers->pending = true;
        rowen_agent_raise(member); /* it may have started since the last look */
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
