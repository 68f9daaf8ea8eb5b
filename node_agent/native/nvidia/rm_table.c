/* The tree of RM objects. Handles are unique within a client; a client's own handle is its number. */
#include <string.h>

#include "nvidia/rm_table.h"

static bool is_tracked(uint32_t class) {
    return class == RM_CLASS_DEVICE || class == RM_CLASS_SUBDEVICE || class == RM_CLASS_CHANNEL_GROUP ||
           rm_is_channel(class) || rm_is_compute(class) || rm_is_copy(class);
}

static bool is_root(uint32_t class) { return class <= 1 || class == RM_CLASS_ROOT; }

static const struct rm_object *find(const struct rm_table *table, uint32_t client, uint32_t handle) {
    for (uint32_t i = 0; i < table->count; i++)
        if (table->objects[i].client == client && table->objects[i].handle == handle) return &table->objects[i];
    return NULL;
}

static uint32_t word_at(const void *params, size_t size, uint32_t offset) {
    uint32_t word;
    if (!params || (size && size < offset + sizeof word)) return 0;
    memcpy(&word, (const char *)params + offset, sizeof word);
    return word;
}

static uint32_t engine_of(uint32_t class, const void *params, size_t size) {
    if (class == RM_CLASS_CHANNEL_GROUP) return word_at(params, size, RM_GROUP_ENGINE_OFFSET);
    if (rm_is_channel(class)) return word_at(params, size, RM_CHANNEL_ENGINE_OFFSET);
    return 0;
}

/* Removes an object and all that hangs on it. The array keeps its order, in which parents come before children. */
static void drop(struct rm_table *table, uint32_t client, uint32_t handle) {
    uint32_t gone[RM_TABLE_OBJECTS], gone_count = 0, kept = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        struct rm_object *object = &table->objects[i];
        bool ends = object->client == client && (object->handle == handle || handle == client);
        for (uint32_t j = 0; !ends && object->client == client && j < gone_count; j++)
            ends = object->parent == gone[j];
        if (ends) gone[gone_count++] = object->handle;
        else table->objects[kept++] = *object;
    }
    table->count = kept;
}

static void add(struct rm_table *table, struct rm_object object) {
    drop(table, object.client, object.handle);
    if (table->count == RM_TABLE_OBJECTS) table->lost++;
    else table->objects[table->count++] = object;
}

/* Reads both forms of an allocation. False: neither, or it has failed. */
static bool read_alloc(const struct rm_event *event, struct rm_alloc_rights *alloc) {
    *alloc = (struct rm_alloc_rights){0};
    if (event->size == sizeof *alloc) {
        memcpy(alloc, event->argument, sizeof *alloc);
    } else if (event->size == sizeof(struct rm_alloc)) {
        struct rm_alloc plain;
        memcpy(&plain, event->argument, sizeof plain);
        memcpy(alloc, &plain, offsetof(struct rm_alloc, params));
        alloc->params_size = plain.params_size;
        alloc->status = plain.status;
    } else {
        return false;
    }
    return alloc->status == RM_OK;
}

static void allocated(struct rm_table *table, const struct rm_event *event) {
    struct rm_alloc_rights alloc;
    if (!read_alloc(event, &alloc)) return;
    if (is_root(alloc.class)) {
        add(table, (struct rm_object){.client = alloc.object, .handle = alloc.object, .class = RM_CLASS_ROOT,
                                      .fd = event->fd});
    } else if (is_tracked(alloc.class)) {
        const void *params = alloc.flags & RM_SERIALIZED ? NULL : event->params;
        add(table, (struct rm_object){.client = alloc.client, .parent = alloc.parent, .handle = alloc.object,
                                      .class = alloc.class, .fd = -1,
                                      .engine = engine_of(alloc.class, params, alloc.params_size)});
    }
}

static void freed(struct rm_table *table, const struct rm_event *event) {
    struct rm_free gone;
    if (event->size != sizeof gone) return;
    memcpy(&gone, event->argument, sizeof gone);
    if (gone.status == RM_OK) drop(table, gone.client, gone.object);
}

void rm_table_observe(struct rm_table *table, const struct rm_event *event) {
    if (event->escape == RM_ESCAPE_ALLOC) allocated(table, event);
    if (event->escape == RM_ESCAPE_FREE) freed(table, event);
}

void rm_table_mark(struct rm_table *table, uint32_t client, uint32_t handle, bool leaving) {
    for (uint32_t i = 0; i < table->count; i++) {
        struct rm_object *object = &table->objects[i];
        if (object->client == client && (object->handle == handle || handle == client)) object->leaving = leaving;
    }
}

static uint32_t subdevice_of(const struct rm_table *table, uint32_t client, uint32_t device) {
    for (uint32_t i = 0; i < table->count; i++) {
        const struct rm_object *object = &table->objects[i];
        if (object->client == client && object->parent == device && object->class == RM_CLASS_SUBDEVICE)
            return object->handle;
    }
    return 0;
}

static void engines_on(const struct rm_table *table, struct rm_channel *channel) {
    for (uint32_t i = 0; i < table->count; i++) {
        const struct rm_object *object = &table->objects[i];
        if (object->client != channel->client || object->parent != channel->channel) continue;
        if (rm_is_compute(object->class)) channel->compute = object->class;
        if (rm_is_copy(object->class)) channel->copy = object->class;
    }
}

/* False when the channel or one above it is on its way out. */
static bool describe(const struct rm_table *table, const struct rm_object *object, struct rm_channel *channel) {
    *channel = (struct rm_channel){.client = object->client, .channel = object->handle, .class = object->class,
                                   .engine = object->engine, .fd = -1};
    const struct rm_object *above = object;
    while (above && !above->leaving && above->class != RM_CLASS_DEVICE) {
        above = find(table, object->client, above->parent);
        if (above && above->class == RM_CLASS_CHANNEL_GROUP) {
            channel->group = above->handle;
            if (above->engine) channel->engine = above->engine;
        }
    }
    if (above && above->leaving) return false;
    if (above) channel->subdevice = subdevice_of(table, object->client, above->handle);
    const struct rm_object *client = find(table, object->client, object->client);
    if (client) channel->fd = client->fd;
    if (client && client->leaving) return false;
    engines_on(table, channel);
    return true;
}

uint32_t rm_table_channels(const struct rm_table *table, struct rm_channel *channels, uint32_t most) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        struct rm_channel channel;
        if (!rm_is_channel(table->objects[i].class) || !describe(table, &table->objects[i], &channel)) continue;
        if (count < most) channels[count] = channel;
        count++;
    }
    return count;
}
