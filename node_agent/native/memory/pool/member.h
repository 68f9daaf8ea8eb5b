/* One member of a pool: its two files, and what the agent alone knows of it. */
#ifndef ROWEN_MEMBER_H
#define ROWEN_MEMBER_H

#include <sys/types.h>

#include "memory/pool/book.h"
#include "memory/pool/pool.h"

struct rowen_member {
    uint32_t number;
    uint32_t kind;
    uint32_t capacity;
    uint64_t handle_bytes;
    int arena_fd;
    int memory_fd;
    ino_t memory_inode; /* all such files are of one file system, or of another with huge pages */
    dev_t memory_device;
    struct rowen_arena_page *page;
    uint64_t page_bytes;
    _Atomic uint32_t *state;
    struct rowen_book_entry *entry; /* NULL: not written down */
    _Atomic uint32_t *lent;         /* beside it */
    bool leaving; /* its process is gone and its memory is being freed: it counts, but gets nothing */

    uint32_t grant;
    uint32_t ceiling; /* most that it may hold by the grants still in effect */
    uint64_t over_ns; /* running time since it has held more than its grant, as it says or as its file shows */
    uint64_t taken;
    bool unsettled; /* handles were taken since its memory was last freed twice */

    /* Of the last look. */
    uint32_t held;
    uint32_t used;
    uint32_t wanted;
    uint32_t really;
    uint8_t *holds;  /* per handle */
    uint8_t *picked; /* per handle: to be taken */

    /* Online. */
    uint32_t target;
    uint32_t growth;
    uint32_t bound;
    uint32_t pressures;
    double threshold;

    /* Offline. */
    uint32_t request;
    uint32_t limit;
};

struct rowen_member *rowen_member_make(uint32_t kind, uint32_t capacity, uint64_t handle_bytes, bool huge,
                                       int32_t *error);
/* The member of files that a process hands over; they are looked at as if it meant ill. The descriptors stay the
 * caller's. *error: -EPERM: not sealed as they should be; -EPROTO: of another layout, or with more than fits. */
struct rowen_member *rowen_member_adopt(uint32_t kind, int arena_fd, int memory_fd, uint64_t handle_bytes,
                                        int32_t *error);
/* Grants an adopted member what it holds, as far as `spare` handles allow, and beyond them what it had been lent; of an
 * online one, what it really has: it may have taken that while there was no agent. */
void rowen_member_resume(struct rowen_member *member, uint32_t spare, uint32_t lent);
void rowen_member_free(struct rowen_member *member);

static inline uint32_t rowen_member_owned(const struct rowen_member *member) {
    return member->ceiling > member->really ? member->ceiling : member->really;
}

/* Reads what the member says, and what its file holds. */
void rowen_member_look(struct rowen_member *member);
/* A grant that falls is followed by a look. */
void rowen_member_grant(struct rowen_member *member, uint32_t handles);
/* Raises a grant towards `aim` out of `spare` handles, of which the rest is returned. What earlier grants still allow
 * costs nothing; what the member holds beyond them does, as others may have been granted it. */
uint32_t rowen_member_raise(struct rowen_member *member, uint32_t aim, uint32_t spare);

/* The member must stand still for these. */

/* Takes at most `most` of the picked handles from number *from on, which moves; lowers the grant. Returns how many. */
uint32_t rowen_member_take(struct rowen_member *member, uint32_t *from, uint32_t most);
/* Frees everything that is not held. */
void rowen_member_scour(struct rowen_member *member);

#endif
