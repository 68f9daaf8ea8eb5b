/* Finds the control threads of processes that are new, and raises them (priority.c). A tenant has not the right to do
 * so itself, and knows its threads by the ids of its own PID namespace. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"

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

void rowen_agent_raise(struct rowen_tenant_file *file, int index, pid_t owner) {
    struct rowen_process_slot *slot = &file->page->processes[index];
    if (atomic_load(&slot->state) != ROWEN_ATTACHED) return;
    struct rowen_control control = {owner, atomic_load(&slot->control_tid)};
    struct rowen_control *raised = &file->raised[index];
    if (owner <= 0 || (raised->pid == owner && raised->tid == control.tid)) return;
    pid_t tid = find_thread(owner, control.tid);
    if (!tid) return;
    rowen_raise(tid); /* what the kernel refuses now it refuses at the next look, too */
    *raised = control;
}
