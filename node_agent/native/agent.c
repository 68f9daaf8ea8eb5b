/* Opening, closing and reading a device from the agent's process. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_LENGTH 512

/* Makes a page file and moves it into place: whoever holds the old file keeps it, with a lease that runs out. */
static int make_file(const char *path, size_t size, uint64_t magic) {
    char temporary[PATH_LENGTH + 8];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return -errno;
    if (fchmod(fd, 0666) != 0 || ftruncate(fd, (off_t)size) != 0) goto fail;
    struct rowen_tenant_page *header = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED) goto fail;
    atomic_store(&header->version, ROWEN_ABI_VERSION);
    atomic_store(&header->size, (uint32_t)size);
    atomic_store(&header->magic, magic);
    if (magic == ROWEN_DEVICE_MAGIC) {
        struct rowen_device_page *page = (void *)header;
        atomic_store(&page->gate, 1);
        atomic_store(&page->closed_at_ns, rowen_now());
    }
    munmap(header, size);
    if (rename(temporary, path) != 0) goto fail;
    return fd;
fail:;
    int error = -errno;
    close(fd);
    return error;
}

static void *open_page(const char *path, size_t size, uint64_t magic, int *fd, int32_t *error) {
    *fd = open(path, O_RDWR | O_CLOEXEC);
    if (*fd >= 0) {
        void *memory = rowen_map(*fd, size, magic, true, error);
        if (memory) return memory;
        close(*fd);
    }
    *fd = make_file(path, size, magic);
    if (*fd < 0) {
        *error = *fd;
        return NULL;
    }
    void *memory = rowen_map(*fd, size, magic, true, error);
    if (!memory) close(*fd);
    return memory;
}

static void release(struct rowen_agent *agent) {
    rowen_agent_dismiss(agent);
    if (agent->page) {
        munmap(agent->page, sizeof *agent->page);
        close(agent->fd);
    }
    for (uint32_t i = 0; i < ROWEN_TENANT_SLOTS; i++) {
        if (!agent->tenants[i].page) continue;
        munmap(agent->tenants[i].page, sizeof *agent->tenants[i].page);
        close(agent->tenants[i].fd);
    }
    free(agent);
}

static int32_t open_pages(struct rowen_agent *agent, const char *directory) {
    char path[PATH_LENGTH];
    int32_t error = 0;
    snprintf(path, sizeof path, "%s/device.page", directory);
    agent->page = open_page(path, sizeof *agent->page, ROWEN_DEVICE_MAGIC, &agent->fd, &error);
    if (!agent->page) return error;
    if (!rowen_lock(agent->fd, ROWEN_AGENT_LOCK)) return -EBUSY;
    for (uint32_t i = 0; i < agent->tenant_pages; i++) {
        struct rowen_tenant_file *tenant = &agent->tenants[i];
        snprintf(path, sizeof path, "%s/tenant-%u.page", directory, i);
        tenant->page = open_page(path, sizeof *tenant->page, ROWEN_TENANT_MAGIC, &tenant->fd, &error);
        if (!tenant->page) return error;
    }
    return 0;
}

struct rowen_agent *rowen_agent_open(const char *directory, uint32_t tenant_pages, const uint64_t *cpus,
                                     uint64_t backstop_ns, int32_t *error) {
    *error = -EINVAL;
    if (strlen(directory) + 32 > PATH_LENGTH || tenant_pages > ROWEN_TENANT_SLOTS) return NULL;
    struct rowen_agent *agent = calloc(1, sizeof *agent);
    if (!agent) {
        *error = -ENOMEM;
        return NULL;
    }
    agent->tenant_pages = tenant_pages;
    agent->backstop_ns = backstop_ns;
    *error = open_pages(agent, directory);
    if (*error) {
        release(agent);
        return NULL;
    }
    memcpy(agent->page->cpus, cpus, sizeof agent->page->cpus);
    rowen_agent_enlist(agent);
    return agent;
}

int32_t rowen_agent_start(struct rowen_agent *agent) {
    pthread_t thread;
    atomic_store(&agent->beat_ns, rowen_now());
    int error = pthread_create(&thread, NULL, rowen_agent_loop, agent);
    if (error) return -error;
    agent->thread = thread;
    agent->started = true;
    return 0;
}

uint64_t rowen_agent_beat(const struct rowen_agent *agent) { return atomic_load(&agent->beat_ns); }

void rowen_agent_close(struct rowen_agent *agent) {
    if (agent->started) {
        atomic_store(&agent->stop, true);
        uint64_t end = rowen_now() + ROWEN_CLOSE_NS;
        struct timespec until = {(time_t)(end / ROWEN_SECOND), (long)(end % ROWEN_SECOND)};
        if (pthread_clockjoin_np(agent->thread, NULL, CLOCK_MONOTONIC, &until) != 0) return;
    }
    release(agent);
}

void rowen_agent_renew(struct rowen_agent *agent, uint64_t until_ns) {
    uint64_t before = atomic_exchange(&agent->page->lease_until_ns, until_ns);
    if (before > rowen_now()) return;
    atomic_fetch_add(&agent->page->idle_events, 1);
    rowen_wake(&agent->page->idle_events, true);
    rowen_wake(rowen_gate_futex(agent->page), true);
}

int32_t rowen_agent_reset(struct rowen_agent *agent, uint32_t tenant) {
    if (tenant >= agent->tenant_pages) return -EINVAL;
    struct rowen_tenant_file *file = &agent->tenants[tenant];
    for (int i = 0; i < ROWEN_PROCESS_SLOTS; i++)
        if (rowen_lock_owner(file->fd, i) != 0) return -EBUSY;
    struct rowen_tenant_page *page = file->page;
    memset((char *)page + offsetof(struct rowen_tenant_page, reports), 0,
           sizeof *page - offsetof(struct rowen_tenant_page, reports));
    struct rowen_tenant_account *account = &agent->page->accounts[tenant];
    atomic_store(&account->open_ns, 0);
    atomic_store(&account->preemptions, 0);
    atomic_store(&account->backstops, 0);
    return 0;
}

static uint64_t difference(uint64_t value, uint64_t from) { return value > from ? value - from : 0; }

static void read_tenant(struct rowen_agent *agent, uint32_t index, struct rowen_tenant_status *out) {
    const struct rowen_tenant_account *account = &agent->page->accounts[index];
    const struct rowen_tenant_page *page = agent->tenants[index].page;
    *out = (struct rowen_tenant_status){
        .open_ns = account->open_ns,
        .preemptions = account->preemptions,
        .backstops = account->backstops,
        .attached = account->attached,
        .stopped = (uint32_t)__builtin_popcountll(account->stopped),
        .reports = page->reports,
        .completed = page->completed,
        .total = page->total,
        .tokens = difference(page->tokens, page->first_tokens),
        .granted_ns = difference(page->granted_ns, page->first_granted_ns),
    };
}

void rowen_agent_status(struct rowen_agent *agent, struct rowen_status *status) {
    const struct rowen_device_page *page = agent->page;
    uint64_t now = rowen_now();
    *status = (struct rowen_status){
        .now_ns = now,
        .idle_ns = page->idle_ns,
        .harvested_ns = page->harvested_ns,
        .preemptions = page->preemptions,
        .backstops = page->backstops,
        .gap_ns = rowen_gap(page, now),
        .cooldown_ns = page->cooldown_ns,
        .lease_until_ns = page->lease_until_ns,
        .records_made = page->records_made,
        .transitions_made = page->transitions_made,
        .gate = rowen_gate(page),
        .online_attached = page->online_attached,
        .in_flight = page->in_flight,
        .tenants = page->tenants,
    };
    for (uint32_t i = 0; i < agent->tenant_pages; i++) read_tenant(agent, i, &status->accounts[i]);
}

/* First number to read so that it is above `after` and still in a ring of `size`. */
static uint64_t first_number(uint64_t after, uint64_t made, uint64_t size) {
    uint64_t oldest = made > size ? made - size + 1 : 1;
    return after + 1 > oldest ? after + 1 : oldest;
}

uint32_t rowen_agent_records(struct rowen_agent *agent, uint64_t after, struct rowen_record *out, uint32_t capacity) {
    uint64_t made = atomic_load(&agent->page->records_made);
    uint32_t count = 0;
    for (uint64_t number = first_number(after, made, ROWEN_RECORDS); number <= made && count < capacity; number++) {
        struct rowen_record *record = &agent->page->records[(number - 1) % ROWEN_RECORDS];
        if (atomic_load(&record->number) != number) continue;
        memcpy(&out[count], record, sizeof *record);
        if (atomic_load(&record->number) == number) count++;
    }
    return count;
}

uint32_t rowen_agent_transitions(struct rowen_agent *agent, uint64_t after, struct rowen_transition *out,
                                 uint32_t capacity) {
    uint64_t made = atomic_load(&agent->page->transitions_made);
    uint32_t count = 0;
    for (uint64_t number = first_number(after, made, ROWEN_TRANSITIONS); number <= made && count < capacity; number++) {
        struct rowen_transition *transition = &agent->page->transitions[(number - 1) % ROWEN_TRANSITIONS];
        memcpy(&out[count], transition, sizeof *transition);
        if (atomic_load(&transition->number) == number) count++;
    }
    return count;
}
