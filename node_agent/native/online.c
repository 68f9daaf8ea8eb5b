/* The online side: an engine says when it is busy. Nothing here waits for anybody. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "page.h"

static pthread_mutex_t attach_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static struct rowen_device_page *_Atomic page;
static struct rowen_online_slot *_Atomic slot;
static int page_fd = -1;

/* A child inherits neither the lock nor, therefore, the slot: it attaches anew if it serves requests. */
static void detach_child(void) {
    atomic_store(&slot, NULL);
    atomic_store(&page, NULL);
    pthread_mutex_init(&attach_mutex, NULL);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, detach_child); }

static int32_t claim_slot(struct rowen_device_page *device, int fd) {
    for (int i = 0; i < ROWEN_ONLINE_SLOTS; i++) {
        if (!rowen_lock(fd, i)) continue;
        atomic_store(&device->online[i].in_flight, 0);
        atomic_store(&device->online[i].step_end_ns, 0);
        atomic_store(&device->online[i].state, ROWEN_ATTACHED);
        page_fd = fd;
        atomic_store(&page, device);
        atomic_store(&slot, &device->online[i]);
        atomic_fetch_add(&device->idle_events, 1);
        rowen_wake(&device->idle_events, true);
        return 0;
    }
    return -EUSERS;
}

static int32_t attach(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return -errno;
    int error = 0;
    struct rowen_device_page *device = rowen_map(fd, sizeof *device, ROWEN_DEVICE_MAGIC, true, &error);
    if (device) error = claim_slot(device, fd);
    /* Closing any descriptor of the file drops the process's locks: safe here only because it holds none. */
    if (error) close(fd);
    return error;
}

int32_t rowen_online_attach(const char *device_page) {
    if (!device_page) return -EINVAL;
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&attach_mutex);
    int32_t result = atomic_load(&slot) ? 0 : attach(device_page);
    pthread_mutex_unlock(&attach_mutex);
    return result;
}

static bool any_in_flight(struct rowen_device_page *device) {
    for (int i = 0; i < ROWEN_ONLINE_SLOTS; i++)
        if (atomic_load(&device->online[i].in_flight) != 0) return true;
    return false;
}

int32_t rowen_online_busy(void) {
    struct rowen_online_slot *mine = atomic_load(&slot);
    if (!mine) return 0;
    /* Before the gate word: whoever sees this call's count there also sees the request. */
    atomic_fetch_add(&mine->in_flight, 1);
    return rowen_close_gate(atomic_load(&page), true);
}

void rowen_online_idle(void) {
    struct rowen_online_slot *mine = atomic_load(&slot);
    if (!mine) return;
    struct rowen_device_page *device = atomic_load(&page);
    uint32_t count = atomic_load(&mine->in_flight);
    do {
        if (count == 0) return;
    } while (!atomic_compare_exchange_weak(&mine->in_flight, &count, count - 1));
    if (count != 1 || any_in_flight(device)) return;
    uint64_t now = rowen_now();
    uint64_t before = atomic_load(&device->idle_since_ns);
    while (before < now && !atomic_compare_exchange_weak(&device->idle_since_ns, &before, now)) {
    }
    atomic_fetch_add(&device->idle_events, 1);
    rowen_wake(&device->idle_events, true);
}

static void note_gap(struct rowen_device_page *device, uint64_t at_ns, uint64_t gap_ns) {
    uint64_t second = at_ns / ROWEN_SECOND;
    uint64_t gap = (gap_ns + 999) / 1000;
    if (gap > UINT32_MAX) gap = UINT32_MAX;
    uint64_t value = second << 32 | gap;
    _Atomic uint64_t *bucket = &device->gap_buckets[second % ROWEN_GAP_BUCKETS];
    uint64_t seen = atomic_load(bucket);
    /* A newer second outweighs any gap of an older one. */
    while (seen < value && !atomic_compare_exchange_weak(bucket, &seen, value)) {
    }
}

void rowen_online_step(uint64_t begin_ns, uint64_t end_ns) {
    struct rowen_online_slot *mine = atomic_load(&slot);
    if (!mine) return;
    struct rowen_device_page *device = atomic_load(&page);
    /* What follows a step that leaves nothing in flight is a pause between requests, however the two are ordered. */
    uint64_t previous = atomic_exchange(&mine->step_end_ns, any_in_flight(device) ? end_ns : 0);
    /* An idle device between the two steps makes it a pause between requests, not a gap inside one. */
    if (previous == 0 || begin_ns <= previous || atomic_load(&device->idle_since_ns) > previous) return;
    note_gap(device, begin_ns, begin_ns - previous);
}

uint32_t rowen_online_gate(void) {
    struct rowen_device_page *device = atomic_load(&page);
    return device ? rowen_gate(device) : 0;
}

void rowen_online_record(uint64_t ttft_ns, uint64_t tpot_ns, uint32_t output_tokens, uint32_t preemptions,
                         uint32_t tenant_present) {
    struct rowen_device_page *device = atomic_load(&page);
    if (!device) return;
    uint64_t number = atomic_fetch_add(&device->records_made, 1) + 1;
    struct rowen_record *record = &device->records[(number - 1) % ROWEN_RECORDS];
    atomic_store(&record->number, 0);
    atomic_store(&record->end_ns, rowen_now());
    atomic_store(&record->ttft_ns, ttft_ns);
    atomic_store(&record->tpot_ns, tpot_ns);
    atomic_store(&record->output_tokens, output_tokens);
    atomic_store(&record->preemptions, preemptions);
    atomic_store(&record->tenant_present, tenant_present);
    atomic_store(&record->number, number);
}

uint32_t rowen_online_tenants(void) {
    struct rowen_device_page *device = atomic_load(&page);
    return device ? atomic_load(&device->tenants) : 0;
}

int32_t rowen_online_pin(void) {
    struct rowen_device_page *device = atomic_load(&page);
    if (!device) return -ENOTCONN;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return -errno;
    int32_t result = 0;
    for (struct dirent *entry; (entry = readdir(tasks));) {
        pid_t tid = (pid_t)atoi(entry->d_name);
        if (tid <= 0) continue;
        if (sched_setaffinity(tid, sizeof device->cpus, (const cpu_set_t *)device->cpus) != 0 && errno != ESRCH)
            result = -errno;
    }
    closedir(tasks);
    return result;
}
