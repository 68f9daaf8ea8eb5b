/* Finds the control threads of processes that are new, and raises them (priority.c). A tenant has not the right to do
 * so itself, and knows its threads by the ids of its own PID namespace. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"

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
    for (struct dirent *entry; !found && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.' && inner_tid(pid, entry->d_name) == inner) found = atoi(entry->d_name);
    closedir(tasks);
    return found;
}

/* A process has one thread with priority, whatever it names after it has attached again. */
static void lower(const struct rowen_member *member, pid_t tid) {
    char path[64], text[8];
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", (int)member->pid, (int)tid);
    struct sched_param none = {0};
    if (rowen_read(path, text, sizeof text)) sched_setscheduler(tid, SCHED_OTHER, &none);
}

void rowen_agent_raise(struct rowen_member *member) {
    int32_t inner = atomic_load(&member->page->block.control_tid);
    if (member->raised || member->state != ROWEN_ATTACHED || inner == 0) return;
    /* Once for each time that it attaches, whatever comes of it. */
    member->raised = true;
    pid_t tid = find_thread(member->pid, inner);
    if (member->raised_tid && member->raised_tid != tid) lower(member, member->raised_tid);
    member->raised_tid = tid;
    if (tid) rowen_raise(tid);
}
