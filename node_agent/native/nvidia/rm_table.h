/* Which RM objects a process holds, as far as stopping it is concerned: a tree of clients, devices, subdevices,
 * channel groups, channels and engines. It learns from the ioctls that it is shown and does nothing else. */
#ifndef ROWEN_RM_TABLE_H
#define ROWEN_RM_TABLE_H

#include <stdbool.h>

#include "nvidia/rm.h"

#define RM_TABLE_OBJECTS 8192u

struct rm_object {
    uint32_t client, parent, handle, class;
    uint32_t engine; /* of a group or channel; 0: not known */
    int32_t fd;      /* of a client: the descriptor that it was made on */
    bool leaving;    /* its RM_FREE is on its way */
};

struct rm_table {
    struct rm_object objects[RM_TABLE_OBJECTS];
    uint32_t count;
    uint32_t lost; /* objects for which there was no room: the tree is incomplete */
};

/* A channel with what is needed to stop it. */
struct rm_channel {
    uint32_t client, subdevice, group, channel;
    uint32_t class, engine; /* engine 0: not known */
    int32_t fd;
    uint32_t compute, copy; /* classes of the engine objects on it; 0: none */
};

/* An ioctl that has succeeded, unwrapped: `params` are the allocation's own, NULL where they cannot be read. */
struct rm_event {
    int32_t fd;
    uint32_t escape;
    const void *argument;
    size_t size;
    const void *params;
};

/* Takes note of an allocation or of the end of an object; others are not looked at, nor those that have failed. */
void rm_table_observe(struct rm_table *table, const struct rm_event *event);
/* While its RM_FREE is on its way an object and what hangs on it are not listed. */
void rm_table_mark(struct rm_table *table, uint32_t client, uint32_t handle, bool leaving);
/* Writes at most `most` channels and returns how many there are. A channel without a subdevice has subdevice 0. */
uint32_t rm_table_channels(const struct rm_table *table, struct rm_channel *channels, uint32_t most);

#endif
