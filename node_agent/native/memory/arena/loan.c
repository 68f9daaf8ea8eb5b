#define _GNU_SOURCE
#include "memory/arena/loan.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_NS ROWEN_SECOND
#define PATIENCE_NS (10 * ROWEN_SECOND)
#define PAUSE_NS (10 * ROWEN_MS)

/* Of the application's threads, which may be parked while they hold it; a tenant's control thread never takes it. It
 * speaks on a connection that is new, when those who hold the lock still have the last one. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

/* Sends a request with `given` descriptors, and gets the answer with others. *refused: the agent has said no. */
static int32_t request(struct rowen_link *link, uint32_t kind, uint32_t capacity, const int *give, uint32_t given,
                       int *got, bool *refused) {
    struct rowen_request_message message = {
        .magic = ROWEN_REQUEST_MAGIC, .abi = ROWEN_ABI, .size = sizeof message,
        .features = ROWEN_KEEPS_LEDGER, .kind = kind, .capacity = capacity};
    *refused = false;
    int fd = rowen_link_share(link);
    if (fd < 0) return fd;
    struct rowen_welcome welcome = {0};
    int32_t error = rowen_link_send(fd, &message, sizeof message, give, given);
    if (!error) error = rowen_link_hear(fd, &welcome, got, ROWEN_FILES_MOST, ANSWER_NS);
    /* An answer that comes later belongs to nobody: the link is made anew. */
    if (error == -ETIMEDOUT) shutdown(fd, SHUT_RDWR);
    close(fd);
    if (error || welcome.error == 0) return error;
    *refused = true;
    return welcome.error < 0 ? welcome.error : -EPROTO;
}

static int32_t hand_over(struct rowen_link *link) {
    struct rowen_arena *arena = atomic_load(&link->arena);
    int files[ROWEN_FILES_MOST], none[ROWEN_FILES_MOST];
    if (!arena) return 0;
    if (link->writes_gate) rowen_arena_alone(arena, false);
    int32_t count = rowen_arena_files(arena, files), error = 0;
    bool refused = true;
    if (count > 0) error = request(link, ROWEN_HAND_OVER, 0, files, (uint32_t)count, none, &refused);
    if (!refused) return error;
    /* An engine serves on with what it was granted last: the agent's book counts that until its process ends. */
    if (!link->writes_gate) rowen_arena_orphan(arena);
    return 0;
}

int32_t rowen_loan_hand_over(struct rowen_link *link) {
    if (link->writes_gate) pthread_mutex_lock(&asking);
    int32_t error = hand_over(link);
    if (link->writes_gate) pthread_mutex_unlock(&asking);
    return error;
}

void rowen_loan_forget(struct rowen_link *link) {
    pthread_mutex_init(&asking, NULL);
    atomic_store(&link->arena, NULL);
}

/* Asks the agent, or the next one while agents are changed. */
static int32_t ask(struct rowen_link *link, uint32_t capacity, int *files, uint32_t *generation) {
    uint64_t end = rowen_now() + PATIENCE_NS;
    for (;;) {
        bool refused;
        *generation = atomic_load(&link->generation);
        int32_t error = request(link, ROWEN_ASK_MEMORY, capacity, NULL, 0, files, &refused);
        if (!error) return files[0] >= 0 && files[1] >= 0 ? 0 : -EPROTO;
        if (refused || rowen_now() > end || *generation == 0) return error;
        _Atomic uint32_t nothing = 0;
        rowen_wait(&nothing, 0, PAUSE_NS, false);
    }
}

static struct rowen_arena *open_arena(struct rowen_link *link, uint32_t capacity, int32_t *error) {
    uint32_t generation;
    int files[ROWEN_FILES_MOST] = {-1, -1, -1};
    *error = atomic_load(&link->arena) ? -EEXIST : ask(link, capacity, files, &generation);
    struct rowen_arena *arena = *error ? NULL : rowen_arena_open(files[0], files[1], error);
    /* Without it the arena is as good. */
    if (arena && files[2] >= 0) rowen_arena_take_ledger(arena, files[2]);
    for (int i = 0; i < ROWEN_FILES_MOST; i++)
        if (files[i] >= 0) close(files[i]);
    if (!arena) return NULL;
    if (link->writes_gate) rowen_arena_tell(arena, &link->device->block.events);
    atomic_store(&link->arena, arena);
    /* Whoever made the link anew meanwhile may not have seen it. */
    while (atomic_load(&link->generation) != generation) {
        generation = atomic_load(&link->generation);
        hand_over(link);
    }
    return arena;
}

struct rowen_arena *rowen_loan_open(struct rowen_link *link, uint32_t capacity, int32_t *error) {
    pthread_mutex_lock(&asking);
    struct rowen_arena *arena = open_arena(link, capacity, error);
    pthread_mutex_unlock(&asking);
    return arena;
}
