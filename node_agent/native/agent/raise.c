/* Finds the control threads of processes that are new, and raises them (priority.c). A tenant has not the right to do
 * so itself, and knows its threads by the ids of its own PID namespace.
 *
 * Which thread that is, is the tenant's word: it may name one that computes. So few are raised for a pod, and none of
 * them goes first while they use more of the CPUs than stopping takes. An honest one that is busy for longer, with much
 * memory that was lost for one, goes first again later. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/device.h"

#define MOST_TASKS 256 /* that are looked at; a library makes its control thread before the program makes others */
#define MOST_RAISED 32 /* processes of a pod */
#define LOOK_NS (50 * ROWEN_MS)
/* Of a CPU, for all of a pod together: as many hundredths as it has such threads, but ten at least. A stop takes some 0.1
 * to 0.5 ms of each, and there may be ten in a second. */
#define LEAST_HUNDREDTHS 10
#define BURST_NS (2 * ROWEN_SECOND) /* of that share */

/* The thread's id in its innermost PID namespace; 0: gone. */
static pid_t inner_tid(pid_t pid, const char *tid) {
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/status", (int)pid, tid);
    if (!rowen_read(path, text, sizeof text)) return 0;
    char *line = strstr(text, "\nNSpid:");
    if (!line) return 0;
    char *end = strchrnul(line + 1, '\n');
    while (isdigit((unsigned char)end[-1])) end--;
    return atoi(end);
}

static pid_t find_thread(pid_t pid, pid_t inner) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (!tasks) return 0;
    pid_t found = 0;
    struct dirent *entry;
    for (int seen = 0; !found && seen < MOST_TASKS && (entry = readdir(tasks)); seen++)
        if (entry->d_name[0] != '.' && inner_tid(pid, entry->d_name) == inner) found = atoi(entry->d_name);
    closedir(tasks);
    return found;
}

/* CPU time that a process's thread has used so far; false: it is gone. */
static bool cpu_time(const struct rowen_member *member, uint64_t *cpu_ns) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)member->pid, (int)member->control.tid);
    const char *rest = rowen_stat(path, text, sizeof text);
    unsigned long long user, system;
    /* State, ten numbers, ticks in the program and in the kernel. */
    const char *format = ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu";
    if (!rest || sscanf(rest, format, &user, &system) != 2) return false;
    *cpu_ns = (user + system) * (ROWEN_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
    return true;
}

static void put_first(struct rowen_member *member, bool first) {
    uint64_t cpu_ns;
    if (member->control.first == first || !cpu_time(member, &cpu_ns)) return;
    if (first) rowen_raise(member->control.tid);
    else rowen_lower(member->control.tid);
    member->control.first = first;
}

static uint64_t used_by(struct rowen_member *member) {
    uint64_t before = member->control.cpu_ns;
    if (!cpu_time(member, &member->control.cpu_ns)) return 0;
    return member->control.cpu_ns > before ? member->control.cpu_ns - before : 0;
}

static bool is_gone(const struct rowen_member *member) {
    return syscall(SYS_tgkill, member->pid, member->control.tid, 0) != 0 && errno == ESRCH;
}

/* A thread that calls execve() goes on as its process's first one, with the priority and the CPU time that it had. */
static uint64_t lose(struct rowen_member *member) {
    struct pollfd process = {.fd = member->pidfd, .events = POLLIN};
    member->control.tid = member->pid;
    uint64_t used = poll(&process, 1, 0) == 0 && rowen_lower(member->pid) ? used_by(member) : 0;
    member->control = (struct rowen_control){0};
    return used;
}

/* CPU time since the last look. */
static uint64_t used_since(struct rowen_member *member) { return is_gone(member) ? lose(member) : used_by(member); }

/* A process has one thread with priority, whatever it names after it has attached again. */
void rowen_agent_raise(struct rowen_agent *agent, struct rowen_member *member) {
    int32_t inner = atomic_load(&member->page->block.control_tid);
    if (member->raised || member->state != ROWEN_ATTACHED || inner == 0) return;
    struct rowen_slot *slot = &agent->pods[member->slot];
    if (!member->control.tid && slot->raised >= MOST_RAISED) return;
    /* Once for each time that it attaches, whatever comes of it. */
    member->raised = true;
    pid_t tid = find_thread(member->pid, inner);
    if (tid == member->control.tid) return;
    if (member->control.tid) {
        slot->control_ns += used_since(member);
        put_first(member, false);
    } else {
        slot->raised++;
    }
    member->control = (struct rowen_control){.tid = tid};
    if (!tid) return;
    cpu_time(member, &member->control.cpu_ns);
    put_first(member, !slot->lowered);
}

static void charge(struct rowen_slot *slot, uint64_t used_ns, uint64_t passed_ns) {
    uint64_t hundredths = slot->raised > LEAST_HUNDREDTHS ? slot->raised : LEAST_HUNDREDTHS;
    uint64_t spent = slot->control_ns + used_ns, earned = passed_ns / 100 * hundredths;
    uint64_t most = BURST_NS / 100 * hundredths;
    spent = spent > earned ? spent - earned : 0;
    if (spent > most) slot->lowered = true;
    else if (spent == 0) slot->lowered = false;
    slot->control_ns = spent < most ? spent : most;
}

void rowen_agent_rank(struct rowen_agent *agent, uint64_t now) {
    uint64_t used[ROWEN_TENANT_SLOTS] = {0}, passed = now - agent->ranked_ns;
    bool looks = passed >= LOOK_NS;
    for (uint32_t i = 0; i < agent->slots; i++) agent->pods[i].raised = 0;
    ROWEN_FOR_MEMBERS(agent, member) {
        if (member->slot == ROWEN_ENGINE || !member->control.tid) continue;
        agent->pods[member->slot].raised++;
        if (looks) used[member->slot] += used_since(member);
    }
    if (looks) agent->ranked_ns = now;
    for (uint32_t i = 0; looks && i < agent->slots; i++) charge(&agent->pods[i], used[i], passed);
    ROWEN_FOR_MEMBERS(agent, member) {
        if (member->slot == ROWEN_ENGINE) continue;
        rowen_agent_raise(agent, member);
        if (member->control.tid) put_first(member, !agent->pods[member->slot].lowered);
    }
}
