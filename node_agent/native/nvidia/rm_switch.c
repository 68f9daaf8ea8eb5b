/* The channels of this process: known from the hook, switched all together. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "tenant/tenant.h"
#include "nvidia/rm_switch.h"

/* Guards the table, and the state of the channels: whoever switches holds it until the driver has answered. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rm_table table;
static bool held; /* channels are stopped, new ones too */

int32_t rowen_rm_control(int32_t fd, uint32_t client, uint32_t object, uint32_t command, void *params,
                         uint32_t params_size) {
    struct rm_control control = {.client = client, .object = object, .command = command,
                                 .params = (uint64_t)(uintptr_t)params, .params_size = params_size};
    if (rm_ioctl(fd, RM_CONTROL, &control) != 0) return -errno;
    return (int32_t)control.status;
}

int32_t rowen_rm_switch(int32_t fd, uint32_t client, uint32_t subdevice, const uint32_t *clients,
                        const uint32_t *channels, uint32_t count, uint32_t disable) {
    for (uint32_t at = 0; at < count; at += RM_MOST_CHANNELS) {
        struct rm_disable_channels params = {.disable = disable != 0};
        params.count = count - at < RM_MOST_CHANNELS ? count - at : RM_MOST_CHANNELS;
        for (uint32_t i = 0; i < params.count; i++) {
            params.clients[i] = clients ? clients[at + i] : client;
            params.channels[i] = channels[at + i];
        }
        int32_t status = rowen_rm_control(fd, client, subdevice, RM_CMD_DISABLE_CHANNELS, &params, sizeof params);
        if (status != 0) return status;
    }
    return 0;
}

/* Switches those that share client and subdevice with the first, and moves the others to the front.
 * Returns how many it took. */
static uint32_t switch_alike(struct rm_channel *channels, uint32_t count, uint32_t disable, int32_t *status) {
    uint32_t handles[RM_TABLE_OBJECTS], chosen = 0;
    const struct rm_channel first = channels[0];
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool same = channels[i].client == first.client && channels[i].subdevice == first.subdevice;
        if (same) handles[chosen++] = channels[i].channel;
        else channels[left++] = channels[i];
    }
    int32_t result = first.subdevice == 0 ? -ENXIO
                                          : rowen_rm_switch(first.fd, first.client, first.subdevice, NULL, handles,
                                                            chosen, disable);
    if (result != 0) *status = result;
    return chosen;
}

static struct rm_channel listed[RM_TABLE_OBJECTS];

/* Switches the first `count` of `listed`. */
static int32_t switch_listed(uint32_t count, uint32_t disable) {
    if (count == 0) return -ENODEV;
    int32_t status = 0;
    while (count > 0) count -= switch_alike(listed, count, disable, &status);
    return status;
}

int32_t rowen_rm_switch_all(uint32_t disable) {
    pthread_mutex_lock(&lock);
    held = disable != 0;
    int32_t status = switch_listed(rm_table_channels(&table, listed, RM_TABLE_OBJECTS), disable);
    pthread_mutex_unlock(&lock);
    return status;
}

uint32_t rowen_rm_channels(struct rm_channel *channels, uint32_t most) {
    pthread_mutex_lock(&lock);
    uint32_t count = rm_table_channels(&table, channels, most);
    pthread_mutex_unlock(&lock);
    return count;
}

uint32_t rowen_rm_lost(void) {
    pthread_mutex_lock(&lock);
    uint32_t lost = table.lost;
    pthread_mutex_unlock(&lock);
    return lost;
}

void rm_allocated(const struct rm_event *event) {
    pthread_mutex_lock(&lock);
    rm_table_observe(&table, event);
    pthread_mutex_unlock(&lock);
}

/* What is scheduled while the others are stopped is stopped with them, before its owner knows of it. */
void rm_scheduled(uint32_t client, uint32_t object) {
    pthread_mutex_lock(&lock);
    if (held) {
        uint32_t count = rm_table_channels(&table, listed, RM_TABLE_OBJECTS), chosen = 0;
        for (uint32_t i = 0; i < count; i++)
            if (listed[i].client == client && (listed[i].group == object || listed[i].channel == object))
                listed[chosen++] = listed[i];
        switch_listed(chosen, 1);
    }
    pthread_mutex_unlock(&lock);
}

void rm_freeing(uint32_t client, uint32_t handle) {
    pthread_mutex_lock(&lock);
    rm_table_mark(&table, client, handle, true);
    pthread_mutex_unlock(&lock);
}

void rm_freed(const struct rm_event *event, bool done) {
    const struct rm_free *freed = event->argument;
    pthread_mutex_lock(&lock);
    if (done) rm_table_observe(&table, event);
    else rm_table_mark(&table, freed->client, freed->object, false);
    pthread_mutex_unlock(&lock);
}

/* The interface of tenant.h for a GPU: its channels stand still, its threads do not. */

int rowen_stop_install(void) { return 0; }

/* The clients are the parent's: a forked child has none, and CUDA does not work in it. */
void rowen_stop_reset(void) {
    pthread_mutex_init(&lock, NULL);
    table = (struct rm_table){0};
    held = false;
}

enum rowen_stop rowen_stop_all(const struct rowen_stopper *stopper, bool (*abandon)(void)) {
    (void)stopper;
    (void)abandon;
    int32_t status = rowen_rm_switch_all(1);
    return (status == 0 || status == -ENODEV) && rowen_rm_lost() == 0 ? ROWEN_STOPPED : ROWEN_ABANDONED;
}

void rowen_go_all(void) { rowen_rm_switch_all(0); }
