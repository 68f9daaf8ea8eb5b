/* A process's connection to the agent: how it attaches, and attaches again. */
#ifndef ROWEN_LINK_H
#define ROWEN_LINK_H

#include "shared/page.h"

#define ROWEN_PATH_LENGTH 108 /* of a Unix socket's address */
#define ROWEN_FILES_MOST 3    /* that come along with a message */

struct rowen_link {
    char path[ROWEN_PATH_LENGTH];
    bool writes_gate; /* an engine's; a tenant gets the device's file read-only */
    _Atomic int socket; /* -1: not connected */
    _Atomic unsigned long socket_inode;
    _Atomic uint32_t generation; /* agents so far */
    /* At the same addresses for as long as the process lives, whichever agent's they are. NULL: never attached. */
    struct rowen_device_page *device;
    struct rowen_member_page *member;
    struct rowen_arena *_Atomic arena; /* of the device's memory; NULL: none */
};

/* What the agent has handed over. */
struct rowen_files {
    int socket;
    int device;
    int member;
};

/* Notes the first of the paths, which colons separate; *paths: the rest of them, NULL after the last. -ENAMETOOLONG. */
int rowen_link_init(struct rowen_link *link, const char **paths, bool writes_gate);
/* Connects and gets new files, within timeout_ns. Returns 0 or -errno; what the agent says of a refusal is copied to
 * `reason` (ROWEN_REASON_LENGTH bytes). */
int rowen_link_ask(const struct rowen_link *link, struct rowen_files *files, char *reason, uint64_t timeout_ns);
/* Maps the new files, in place of the old ones where there are any, and closes their descriptors. Returns 0 or -errno:
 * then the link is lost, and the agent takes an engine for busy. */
int rowen_link_adopt(struct rowen_link *link, const struct rowen_files *files);
/* Whether the agent has gone, or the application has closed the connection. */
bool rowen_link_lost(const struct rowen_link *link);
/* A descriptor of the connection that stays good while others make the link anew; the caller's to close. -ENOTCONN. */
int rowen_link_share(const struct rowen_link *link);
/* Sends a message with `count` descriptors. 0 or -errno. */
int rowen_link_send(int fd, const void *message, size_t size, const int *files, uint32_t count);
/* The next welcome, with the descriptors that came along, `room` at most, else what files[] held before. 0 or -errno;
 * what the agent says of a refusal is in the welcome. */
int rowen_link_hear(int fd, struct rowen_welcome *welcome, int *files, uint32_t room, uint64_t timeout_ns);
/* Forgets the connection without a word on it: a child after fork(), whose copy is its parent's. */
void rowen_link_forget(struct rowen_link *link);

#endif
