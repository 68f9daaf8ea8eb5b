/* The agent's side of a device's memory: one pool of handles, and who may hold how many of them.
 *
 * A member is a process, online or offline. What it *owns* is the most that it may hold by the grants still in effect,
 * or what its memory file really holds, whichever is more; what no member owns is free. Grants are raised out of free
 * handles only. A grant that is lowered counts as it was until the member has given back: its map() refuses meanwhile.
 *
 * Nothing that a member wrote is trusted: it is read once, bounded, and used against the member's own share only.
 *
 * Functions may be called from any thread; those that fail return -errno. No lock is shared with a member.
 */
#ifndef ROWEN_POOL_H
#define ROWEN_POOL_H

#include "memory/memory_abi.h"
#include "memory/pool/choose.h"
#include "shared/page.h"

#define ROWEN_POOL_HANDLES (1u << 20)
#define ROWEN_POOL_MEMBERS 256
/* Most of them that are offline. */
#define ROWEN_POOL_OFFLINE 224
/* Running time that a member has for giving back what a lowered grant asks of it. */
#define ROWEN_RETURN_NS (10 * ROWEN_SECOND)

enum rowen_member_kind { ROWEN_ONLINE = 1, ROWEN_OFFLINE = 2 };

/* All in handles, but for the first two. */
struct rowen_member_status {
    uint32_t member;
    uint32_t kind;
    uint32_t granted;
    uint32_t owned;
    uint32_t held;      /* as the member says; at most its capacity, as all that it says */
    uint32_t used;
    uint32_t wanted;
    uint32_t really;    /* that its memory file holds, rounded up */
    uint32_t overdrawn; /* of these, beyond every grant; pages that a thread filled while it was stopped, or ill will */
    uint32_t stubborn;  /* that it has kept beyond its grant for longer than ROWEN_RETURN_NS */
    uint32_t target;    /* of an online member: that it shall own now */
    uint32_t pressures; /* of an online member: times that its target was raised to meet a need */
    uint32_t capacity;  /* most that it may ever hold */
    uint32_t bound;     /* of an online member: most that it may own */
    uint64_t taken;     /* so far */
};

struct rowen_pool_status {
    uint64_t handle_bytes;
    uint64_t page_bytes; /* of the kernel's pages below: 2 MiB where it has reserved enough of them */
    uint64_t reclaims;   /* rounds in which handles were taken */
    uint64_t handles_reclaimed;
    uint64_t handles_for_engines; /* of these: the others were for the fixed part */
    uint32_t total;
    uint32_t free;
    uint32_t deficit; /* that the fixed part and online members lacked after the last round */
    uint32_t members;
    uint32_t fixed; /* kept from all members */
    uint32_t engines_absent; /* that engines of the last pool own which have not handed their arenas over yet */
    struct rowen_member_status member[ROWEN_POOL_MEMBERS];
};

struct rowen_pool;

/* `huge`: of the kernel's reserved huge pages, where it has enough for the whole pool. NULL and *error: -EINVAL: no
 * handle or too many, or a handle's length is no power of two or less than a page. */
ROWEN_API struct rowen_pool *rowen_pool_open(uint32_t handles, uint64_t handle_bytes, bool huge, int32_t *error);
/* Writes down in a file who owns how much, so that the pool of the next agent knows of processes that have not handed
 * their arenas over yet; for a pool without members. 0 or -errno. */
ROWEN_API int32_t rowen_pool_keep(struct rowen_pool *pool, const char *path);
/* No thread may use it any more. What members hold stays theirs until they end. */
ROWEN_API void rowen_pool_close(struct rowen_pool *pool);

/* Makes a member with a grant of 0; returns its number, above 0 and never given again. The two descriptors are the
 * pool's, and the member's to duplicate. -EINVAL: capacity; -ENOSPC: too many members. */
ROWEN_API int32_t rowen_pool_admit(struct rowen_pool *pool, uint32_t kind, uint32_t capacity, int32_t *arena_fd,
                                   int32_t *memory_fd);
/* Goes on with the arena that a process has of an earlier pool of this device, and grants it what it holds; what is
 * not free for it, nor in the book, is overdrawn, or an online member's at the cost of offline ones. Its target, or
 * limit, is what was granted. The descriptors stay the caller's. Returns the member's number; of an arena that is here
 * already, that member's. -EPERM: not sealed; -EPROTO: other sizes or layout, or more memory than fits; -ENOSPC: too
 * many members; -EBUSY: it is just being freed. An offline process must stand still, for its own sake. */
ROWEN_API int32_t rowen_pool_adopt(struct rowen_pool *pool, uint32_t kind, int32_t pid, int32_t arena_fd,
                                   int32_t memory_fd);
/* Says whose member it is, for the file that rowen_pool_keep() opened; before its process has the files. */
ROWEN_API int32_t rowen_pool_name(struct rowen_pool *pool, uint32_t member, int32_t pid);
/* The process holds nothing of an earlier pool any more: it runs another program. */
ROWEN_API void rowen_pool_forget(struct rowen_pool *pool, int32_t pid);
/* For a member whose process is gone: its memory is freed, then its handles. -ENOENT: no such member. */
ROWEN_API int32_t rowen_pool_dismiss(struct rowen_pool *pool, uint32_t member);

/* What an online member shall own: `target` handles, and `growth`, if more, as soon as it uses `threshold` of what it
 * was granted or wants more than that. The target is raised then, and `pressures` counted; -EAGAIN: it was, since the
 * caller saw `pressures`. -EINVAL: not online, or above its capacity, or no threshold in (0, 1]. */
ROWEN_API int32_t rowen_pool_demand(struct rowen_pool *pool, uint32_t member, uint32_t pressures, uint32_t target,
                                    uint32_t growth, double threshold);
/* The most that an online member may own, whatever it wants and its target says. Starts as its capacity. -EINVAL: not
 * online, or above its capacity. */
ROWEN_API int32_t rowen_pool_bound(struct rowen_pool *pool, uint32_t member, uint32_t bound);
/* Keeps so many handles from all members, for memory that is used beside the pool; all of them if there are fewer. They
 * are met like the target of an online member, before those. */
ROWEN_API void rowen_pool_fix(struct rowen_pool *pool, uint32_t handles);
/* Whether, after the last round, offline members hold handles that are missing and in use beside them already: for the
 * fixed part, or by an engine that took them while there was no agent. Only a stop frees them. */
ROWEN_API bool rowen_pool_lacks(struct rowen_pool *pool);
/* The same of all that is missing, an engine's headroom too. */
ROWEN_API bool rowen_pool_owes(struct rowen_pool *pool);
/* What an offline member may own: at most `limit`; below `request` nothing is taken from it, and so much of the pool is
 * kept for it. Starts as 0 and 0. -EINVAL: not offline, request > limit, or limit above its capacity. */
ROWEN_API int32_t rowen_pool_share(struct rowen_pool *pool, uint32_t member, uint32_t request, uint32_t limit);

/* Sets a grant by hand, as far as free handles allow; returns the grant. */
ROWEN_API int32_t rowen_pool_grant(struct rowen_pool *pool, uint32_t member, uint32_t handles);
/* Takes those of the handles that the member holds, and lowers its grant. Every thread of it must stand still. Returns
 * how many were taken. */
ROWEN_API int32_t rowen_pool_reclaim(struct rowen_pool *pool, uint32_t member, const uint32_t *handles, uint32_t count);
/* Frees once more what was taken from offline members, since a thread inside the kernel may have filled it. For the
 * moment before they go on; each thread of theirs must stand still. */
ROWEN_API void rowen_pool_settle(struct rowen_pool *pool);

/* Which handles are taken; NULL: rowen_choose_highest(). Called within serve(). */
ROWEN_API void rowen_pool_choose(struct rowen_pool *pool, rowen_chooser *choose, void *context);

/* One round, online first: the fixed part and targets are met out of free handles, then out of grants that offline members do not use,
 * then, if and only if every thread of every offline member stands still, out of handles taken from them; what is still
 * missing is the deficit, which is returned. Then offline members get their requests, and what is left up to what they
 * want and their limits. `now_ns`: CLOCK_MONOTONIC. */
ROWEN_API uint32_t rowen_pool_serve(struct rowen_pool *pool, bool offline_stopped, uint64_t now_ns);

ROWEN_API void rowen_pool_status(struct rowen_pool *pool, struct rowen_pool_status *status);

#endif
