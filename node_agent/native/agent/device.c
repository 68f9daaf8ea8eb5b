/* Opening and closing a device in the agent's process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/device.h"
#include "memory/pool/pool.h"

#define PATH_LENGTH 512

static bool is_state(const struct rowen_state *state) {
    return state->magic == ROWEN_STATE_MAGIC && state->size == sizeof *state;
}

/* The state that the last agent left, or none where that was another release's. */
static int32_t open_state(struct rowen_agent *agent, const char *directory) {
    char path[PATH_LENGTH];
    if ((size_t)snprintf(path, sizeof path, "%s/device.state", directory) >= sizeof path) return -ENAMETOOLONG;
    agent->state_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (agent->state_fd < 0) return -errno;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(agent->state_fd, F_OFD_SETLK, &lock) != 0) return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
    if (ftruncate(agent->state_fd, sizeof *agent->state) != 0) return -errno;
    agent->state = mmap(NULL, sizeof *agent->state, PROT_READ | PROT_WRITE, MAP_SHARED, agent->state_fd, 0);
    if (agent->state == MAP_FAILED) {
        agent->state = NULL;
        return -errno;
    }
    if (is_state(agent->state)) return 0;
    memset(agent->state, 0, sizeof *agent->state);
    agent->state->size = sizeof *agent->state;
    agent->state->magic = ROWEN_STATE_MAGIC;
    return 0;
}

static int32_t make_page(struct rowen_agent *agent, const uint64_t *cpus) {
    agent->page_fd = rowen_make_file("rowen-device", sizeof *agent->page, ROWEN_DEVICE_MAGIC);
    if (agent->page_fd < 0) return agent->page_fd;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", agent->page_fd);
    agent->readers_fd = open(path, O_RDONLY | O_CLOEXEC);
    /* Nobody opens it anew, for more than he was given, by its name in /proc. */
    if (agent->readers_fd < 0 || fchmod(agent->page_fd, 0) != 0) return -errno;
    int error = 0;
    agent->page = rowen_map(agent->page_fd, sizeof *agent->page, ROWEN_DEVICE_MAGIC, true, NULL, &error);
    if (!agent->page) return error;
    atomic_store(&agent->page->block.gate, 1);
    atomic_store(&agent->page->block.closed_at_ns, rowen_now());
    for (int i = 0; i < ROWEN_CPU_WORDS; i++) {
        atomic_store(&agent->page->cpus[i], cpus[i]);
        agent->cpus += (uint32_t)__builtin_popcountll(cpus[i]);
    }
    return 0;
}

static void release(struct rowen_agent *agent) {
    rowen_backstop_dismiss(agent);
    /* Nobody runs on beside requests without the limit. */
    if (agent->share) rowen_close_gate(agent->page, false);
    if (agent->state) rowen_share_lift(agent);
    ROWEN_FOR_MEMBERS(agent, member) rowen_agent_forget(member);
    for (uint32_t i = 0; i < agent->slots; i++)
        if (agent->pods[i].known) rowen_cgroup_close(&agent->pods[i].cgroup);
    if (agent->page) rowen_unmap(agent->page, sizeof *agent->page);
    if (agent->state) munmap(agent->state, sizeof *agent->state);
    int files[] = {agent->page_fd, agent->readers_fd, agent->state_fd};
    for (int i = 0; i < 3; i++)
        if (files[i] >= 0) close(files[i]);
    if (agent->pool) rowen_pool_close(agent->pool);
    pthread_mutex_destroy(&agent->lock);
    free(agent);
}

struct rowen_agent *rowen_agent_open(const char *directory, uint32_t slots, const uint64_t *cpus, uint64_t backstop_ns,
                                     int32_t *error) {
    *error = -EINVAL;
    if (slots > ROWEN_TENANT_SLOTS) return NULL;
    struct rowen_agent *agent = calloc(1, sizeof *agent);
    if (!agent) {
        *error = -ENOMEM;
        return NULL;
    }
    *error = rowen_make_lock(&agent->lock);
    if (*error) {
        free(agent);
        return NULL;
    }
    agent->page_fd = agent->readers_fd = agent->state_fd = -1;
    agent->slots = slots;
    agent->backstop_ns = backstop_ns;
    *error = open_state(agent, directory);
    if (!*error) *error = make_page(agent, cpus);
    if (*error) {
        release(agent);
        return NULL;
    }
    rowen_backstop_enlist(agent);
    return agent;
}

void rowen_agent_allow_cpu(struct rowen_agent *agent) { agent->allows_cpu = true; }

int32_t rowen_agent_start(struct rowen_agent *agent) {
    atomic_store(&agent->beat_ns, rowen_now());
    int error = pthread_create(&agent->thread, NULL, rowen_agent_loop, agent);
    if (error) return -error;
    agent->started = true;
    return 0;
}

uint64_t rowen_agent_beat(const struct rowen_agent *agent) { return atomic_load(&agent->beat_ns); }

int32_t rowen_agent_close(struct rowen_agent *agent) {
    if (agent->started) {
        atomic_store(&agent->stop, true);
        uint64_t end = rowen_now() + ROWEN_CLOSE_NS;
        struct timespec until = {(time_t)(end / ROWEN_SECOND), (long)(end % ROWEN_SECOND)};
        if (pthread_clockjoin_np(agent->thread, NULL, CLOCK_MONOTONIC, &until) != 0) return -ETIMEDOUT;
    }
    release(agent);
    return 0;
}

void rowen_agent_renew(struct rowen_agent *agent, uint64_t until_ns) {
    uint64_t before = atomic_exchange(&agent->page->block.lease_until_ns, until_ns);
    if (before > rowen_now()) return;
    atomic_fetch_add(&agent->page->block.events, 1);
    rowen_wake(&agent->page->block.events, true);
    rowen_wake(rowen_gate_futex(agent->page), true);
}

void rowen_agent_set_riders(struct rowen_agent *agent, uint32_t riders) { atomic_store(&agent->page->riders, riders); }

int32_t rowen_agent_device_file(const struct rowen_agent *agent, uint32_t writable) {
    return writable ? agent->page_fd : agent->readers_fd;
}
