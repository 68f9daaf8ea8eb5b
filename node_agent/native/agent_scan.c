/* What the agent's thread does with processes: sees them come and go, awaits them, stops those that do not answer. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"

#define LIVENESS_NS (5 * ROWEN_MS) /* without an answer for so long, the process may be dead */
#define FLAG_EXITING 4u            /* PF_EXITING, in the flags of /proc/<pid>/stat */

static void scan_online(struct rowen_agent *agent, uint64_t now) {
    struct rowen_device_page *page = agent->page;
    uint32_t attached = 0, busy = 0;
    for (int i = 0; i < ROWEN_ONLINE_SLOTS; i++) {
        struct rowen_online_slot *slot = &page->online[i];
        if (atomic_load(&slot->state) == ROWEN_FREE) continue;
        if (rowen_lock_owner(agent->fd, i) == 0 && rowen_lock(agent->fd, i)) {
            atomic_store(&slot->in_flight, 0);
            atomic_store(&slot->state, ROWEN_FREE);
            rowen_unlock(agent->fd, i);
            agent->quiet_from_ns = now;
            continue;
        }
        attached++;
        busy += atomic_load(&slot->in_flight);
    }
    if (attached > atomic_load(&page->online_attached)) agent->quiet_from_ns = now;
    atomic_store(&page->online_attached, attached);
    atomic_store(&page->in_flight, busy);
}

static void free_process(struct rowen_agent *agent, uint32_t tenant, int index) {
    struct rowen_tenant_file *file = &agent->tenants[tenant];
    if (!rowen_lock(file->fd, index)) return;
    atomic_store(&file->page->processes[index].state, ROWEN_FREE);
    atomic_fetch_and(&agent->page->accounts[tenant].stopped, ~(1ull << index));
    file->raised[index] = (struct rowen_control){0, 0};
    rowen_unlock(file->fd, index);
}

static void scan_tenants(struct rowen_agent *agent) {
    uint32_t all = 0;
    for (uint32_t tenant = 0; tenant < agent->tenant_pages; tenant++) {
        struct rowen_tenant_file *file = &agent->tenants[tenant];
        uint32_t attached = 0;
        for (int i = 0; i < ROWEN_PROCESS_SLOTS; i++) {
            if (atomic_load(&file->page->processes[i].state) == ROWEN_FREE) continue;
            pid_t owner = rowen_lock_owner(file->fd, i);
            if (owner == 0) {
                free_process(agent, tenant, i);
                continue;
            }
            rowen_agent_raise(file, i, owner);
            attached++;
        }
        atomic_store(&agent->page->accounts[tenant].attached, attached);
        all += attached;
    }
    atomic_store(&agent->page->tenants, all);
}

void rowen_agent_scan(struct rowen_agent *agent, uint64_t now) {
    scan_online(agent, now);
    scan_tenants(agent);
}

/* Signals the process that holds the lock, and no other that has got its pid since. */
static bool signal_owner(int fd, int index, int number) {
    pid_t pid = rowen_lock_owner(fd, index);
    if (pid <= 0) return false;
    int handle = (int)syscall(SYS_pidfd_open, pid, 0);
    if (handle < 0) return false;
    bool sent = rowen_lock_owner(fd, index) == pid && syscall(SYS_pidfd_send_signal, handle, number, NULL, 0) == 0;
    close(handle);
    return sent;
}

/* Guards the list, and makes one step of "who else holds the process" and the signal. */
static pthread_mutex_t holds = PTHREAD_MUTEX_INITIALIZER;
static struct rowen_agent *agents;

void rowen_agent_enlist(struct rowen_agent *agent) {
    pthread_mutex_lock(&holds);
    agent->next = agents;
    agents = agent;
    pthread_mutex_unlock(&holds);
}

void rowen_agent_dismiss(struct rowen_agent *agent) {
    pthread_mutex_lock(&holds);
    struct rowen_agent **at = &agents;
    while (*at && *at != agent) at = &(*at)->next;
    if (*at) *at = agent->next;
    pthread_mutex_unlock(&holds);
}

static bool holds_process(struct rowen_agent *agent, pid_t pid) {
    for (uint32_t tenant = 0; tenant < agent->tenant_pages; tenant++) {
        uint64_t stopped = atomic_load(&agent->page->accounts[tenant].stopped);
        for (int i = 0; i < ROWEN_PROCESS_SLOTS; i++)
            if (stopped >> i & 1 && rowen_lock_owner(agent->tenants[tenant].fd, i) == pid) return true;
    }
    return false;
}

static void stop_process(struct rowen_agent *agent, uint32_t tenant, int index) {
    struct rowen_tenant_account *account = &agent->page->accounts[tenant];
    pthread_mutex_lock(&holds);
    /* Noted first: should this agent die here, the next one lets the process go on. */
    atomic_fetch_or(&account->stopped, 1ull << index);
    bool sent = signal_owner(agent->tenants[tenant].fd, index, SIGSTOP);
    if (!sent) atomic_fetch_and(&account->stopped, ~(1ull << index));
    pthread_mutex_unlock(&holds);
    if (!sent) return;
    atomic_fetch_add(&account->backstops, 1);
    atomic_fetch_add(&agent->page->backstops, 1);
}

static void continue_process(struct rowen_agent *agent, uint32_t tenant, int index) {
    int fd = agent->tenants[tenant].fd;
    pid_t pid = rowen_lock_owner(fd, index);
    for (struct rowen_agent *other = agents; other; other = other->next)
        if (other != agent && holds_process(other, pid)) return;
    signal_owner(fd, index, SIGCONT);
}

void rowen_agent_continue(struct rowen_agent *agent) {
    for (uint32_t tenant = 0; tenant < agent->tenant_pages; tenant++) {
        struct rowen_tenant_account *account = &agent->page->accounts[tenant];
        uint64_t stopped = atomic_load(&account->stopped);
        if (!stopped) continue;
        pthread_mutex_lock(&holds);
        for (int i = 0; i < ROWEN_PROCESS_SLOTS; i++)
            if (stopped >> i & 1) continue_process(agent, tenant, i);
        atomic_fetch_and(&account->stopped, ~stopped);
        pthread_mutex_unlock(&holds);
    }
}

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

/* Frees the slot of a process that is gone; true, too, for one that is going. */
static bool gone_or_going(struct rowen_agent *agent, uint32_t tenant, int index) {
    pid_t owner = rowen_lock_owner(agent->tenants[tenant].fd, index);
    if (owner == 0) free_process(agent, tenant, index);
    return owner == 0 || (owner > 0 && process_ends(owner));
}

struct answers {
    uint64_t last_ns;
    uint32_t count;
    bool pending;
};

static void await_process(struct rowen_agent *agent, uint32_t tenant, int index, uint32_t gate, uint64_t closed,
                          struct answers *answers) {
    struct rowen_tenant_file *file = &agent->tenants[tenant];
    struct rowen_process_slot *slot = &file->page->processes[index];
    if (atomic_load(&slot->state) != ROWEN_ATTACHED) return;
    uint64_t now = rowen_now();
    if (atomic_load(&slot->ack) == gate) {
        uint64_t at = atomic_load(&slot->ack_ns);
        if (at < closed || at > now) at = now;
        if (at > answers->last_ns) answers->last_ns = at;
        answers->count++;
    } else if (atomic_load(&agent->page->accounts[tenant].stopped) >> index & 1) {
        if (now > answers->last_ns) answers->last_ns = now;
        answers->count++;
    } else if (now - closed > LIVENESS_NS && gone_or_going(agent, tenant, index)) {
        return;
    } else if (now - closed < 2 * agent->backstop_ns) {
        answers->pending = true;
        rowen_agent_raise(file, index, rowen_lock_owner(file->fd, index)); /* it may have started since the last look */
        if (now - closed >= agent->backstop_ns) stop_process(agent, tenant, index);
    } /* else: beyond reach, e.g. in a PID namespace that this agent cannot see; the others need not wait for it. */
}

static uint32_t collect_tenant(struct rowen_agent *agent, uint32_t tenant, uint32_t gate, uint64_t closed,
                               struct answers *answers) {
    uint32_t before = answers->count;
    for (int i = 0; i < ROWEN_PROCESS_SLOTS; i++) await_process(agent, tenant, i, gate, closed, answers);
    return answers->count - before;
}

bool rowen_agent_collect(struct rowen_agent *agent, uint32_t gate, struct rowen_transition *transition) {
    struct rowen_device_page *page = agent->page;
    uint64_t closed = atomic_load(&transition->closed_ns);
    struct answers answers = {closed, 0, false};
    uint32_t stopped[ROWEN_TENANT_SLOTS] = {0};
    for (uint32_t tenant = 0; tenant < agent->tenant_pages; tenant++)
        stopped[tenant] = collect_tenant(agent, tenant, gate, closed, &answers);
    if (answers.pending) return false;
    atomic_store(&transition->tenants, answers.count);
    atomic_store(&transition->ack_ns, answers.last_ns);
    for (uint32_t tenant = 0; tenant < agent->tenant_pages; tenant++)
        if (stopped[tenant]) atomic_fetch_add(&page->accounts[tenant].preemptions, 1);
    if (answers.count && atomic_load(&transition->reason) == ROWEN_BUSY) atomic_fetch_add(&page->preemptions, 1);
    return true;
}
