/* Who is on the device: processes let in, and their pods. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/device.h"

int32_t rowen_agent_member_file(void) {
    return rowen_make_file("rowen-member", sizeof(struct rowen_member_page), ROWEN_MEMBER_MAGIC);
}

void rowen_agent_forget(struct rowen_member *member) {
    if (member->page) rowen_unmap(member->page, sizeof *member->page);
    if (member->pidfd >= 0) close(member->pidfd);
    *member = (struct rowen_member){.state = ROWEN_FREE, .pidfd = -1};
}

/* A place for the process: the one that it has, or the first that is free. */
static struct rowen_member *place_for(struct rowen_agent *agent, pid_t pid) {
    struct rowen_member *place = NULL;
    for (uint32_t i = 0; i < ROWEN_MEMBERS; i++) {
        struct rowen_member *member = &agent->members[i];
        if (member->state == ROWEN_FREE && !place) place = member;
        if (member->state != ROWEN_FREE && member->pid == pid) return member;
        if (i >= agent->members_end && place) break;
    }
    return place;
}

/* Until the engine writes into its new page, what it wrote into the old one holds; one that has none may have requests.
 * And as it may have turned busy since, the device is not idle before it has had time for that. */
static void carry_over(struct rowen_agent *agent, const struct rowen_member *old, struct rowen_member *new) {
    if (new->slot != ROWEN_ENGINE) return;
    agent->quiet_from_ns = rowen_now();
    bool knows = old->state != ROWEN_FREE && old->slot == ROWEN_ENGINE;
    if (knows) atomic_store(&new->page->block.idle_since_ns, atomic_load(&old->page->block.idle_since_ns));
    atomic_store(&new->page->block.in_flight, knows ? atomic_load(&old->page->block.in_flight) : 1);
    if (knows) rowen_composition_copy(&new->page->composition, &old->page->composition);
}

static int32_t put(struct rowen_agent *agent, struct rowen_member *new) {
    struct rowen_member *member = place_for(agent, new->pid);
    if (!member) return -EUSERS;
    new->control = member->control;
    carry_over(agent, member, new);
    if (member->state != ROWEN_FREE) rowen_agent_forget(member);
    *member = *new;
    uint32_t number = (uint32_t)(member - agent->members);
    if (number >= agent->members_end) agent->members_end = number + 1;
    return (int32_t)number;
}

int32_t rowen_agent_admit(struct rowen_agent *agent, int32_t slot, int32_t pid, int32_t pidfd, int32_t file) {
    if (slot < ROWEN_ENGINE || slot >= (int32_t)agent->slots) return -EINVAL;
    struct rowen_member new = {.state = ROWEN_ATTACHED, .slot = slot, .pid = pid};
    int error = 0;
    new.page = rowen_map(file, sizeof *new.page, ROWEN_MEMBER_MAGIC, true, NULL, &error);
    if (!new.page) return error;
    new.pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
    int32_t number = new.pidfd < 0 ? -errno : 0;
    if (number == 0) {
        pthread_mutex_lock(&agent->lock);
        number = put(agent, &new);
        rowen_agent_scan(agent, rowen_now());
        pthread_mutex_unlock(&agent->lock);
    }
    if (number < 0) rowen_agent_forget(&new);
    return number;
}

void rowen_agent_loosen(struct rowen_agent *agent, uint32_t member) {
    if (member >= ROWEN_MEMBERS) return;
    pthread_mutex_lock(&agent->lock);
    struct rowen_member *at = &agent->members[member];
    /* An engine's connection says nothing of its requests. */
    if (at->state == ROWEN_ATTACHED && at->slot != ROWEN_ENGINE) at->state = ROWEN_LOOSE;
    pthread_mutex_unlock(&agent->lock);
}

void rowen_agent_dismiss(struct rowen_agent *agent, uint32_t member) {
    if (member >= ROWEN_MEMBERS) return;
    pthread_mutex_lock(&agent->lock);
    struct rowen_member *at = &agent->members[member];
    if (at->state != ROWEN_FREE) {
        uint64_t now = rowen_now();
        rowen_agent_scan(agent, now); /* what it has reported last */
        if (at->slot == ROWEN_ENGINE) agent->quiet_from_ns = now;
        rowen_agent_forget(at);
        rowen_agent_scan(agent, now);
        atomic_fetch_add(&agent->page->block.events, 1);
        rowen_wake(&agent->page->block.events, true);
    }
    pthread_mutex_unlock(&agent->lock);
}

int32_t rowen_agent_set_pod(struct rowen_agent *agent, uint32_t slot, uint64_t pod, const char *directory,
                            const char *cpuacct, const char *cpu) {
    if (slot >= agent->slots) return -EINVAL;
    struct rowen_cgroup cgroup;
    int32_t error = rowen_cgroup_open(&cgroup, directory, cpuacct, cpu);
    if (error) return error;
    pthread_mutex_lock(&agent->lock);
    rowen_share_forget(agent, slot);
    rowen_backstop_adopt(agent, slot, pod, &cgroup);
    rowen_share_adopt(agent, slot);
    pthread_mutex_unlock(&agent->lock);
    return 0;
}

int32_t rowen_agent_reset(struct rowen_agent *agent, uint32_t slot) {
    if (slot >= agent->slots) return -EINVAL;
    int32_t result = 0;
    pthread_mutex_lock(&agent->lock);
    ROWEN_FOR_MEMBERS(agent, member)
        if (member->slot == (int32_t)slot) result = -EBUSY;
    if (result == 0) {
        rowen_share_forget(agent, slot);
        rowen_backstop_forget(agent, slot);
        memset(&agent->state->accounts[slot], 0, sizeof agent->state->accounts[slot]);
    }
    pthread_mutex_unlock(&agent->lock);
    return result;
}

uint32_t rowen_agent_in_flight(struct rowen_agent *agent) {
    uint32_t sum = 0;
    ROWEN_FOR_MEMBERS(agent, member)
        if (member->slot == ROWEN_ENGINE) sum += atomic_load(&member->page->block.in_flight);
    return sum;
}

uint64_t rowen_agent_idle_since(struct rowen_agent *agent) {
    uint64_t latest = 0;
    ROWEN_FOR_MEMBERS(agent, member) {
        if (member->slot != ROWEN_ENGINE) continue;
        uint64_t since = atomic_load(&member->page->block.idle_since_ns);
        if (since > latest) latest = since;
    }
    return latest;
}

void rowen_agent_scan(struct rowen_agent *agent, uint64_t now) {
    uint32_t engines = 0, tenants = 0, attached[ROWEN_TENANT_SLOTS] = {0};
    bool failed = false;
    agent->scanned_ns = now;
    ROWEN_FOR_MEMBERS(agent, member) {
        if (member->slot == ROWEN_ENGINE) {
            engines++;
            failed |= atomic_load(&member->page->failed) != 0;
            rowen_report_gaps(agent, member);
            rowen_report_requests(agent, member);
            continue;
        }
        tenants++;
        attached[member->slot]++;
        rowen_report_progress(agent, member);
    }
    rowen_agent_rank(agent, now);
    /* What the engine's other processes tell is not all of its work. */
    atomic_store(&agent->engines, failed ? 0 : engines);
    atomic_store(&agent->in_flight, rowen_agent_in_flight(agent));
    atomic_store(&agent->page->tenants, tenants);
    for (uint32_t i = 0; i < agent->slots; i++) atomic_store(&agent->state->accounts[i].attached, attached[i]);
}
