#define _GNU_SOURCE
#include "memory/ledger/selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/file.h"

#define NONE UINT32_MAX
#define GROUP 64u
#define ENTRIES (ROWEN_LEDGER_HANDLES + 1)
/* More than all owners together can cost, though they be listed again and again. */
#define UNKNOWN (1ull << 62)
#define NOBODYS (1ull << 63)

#define ENTRIES_MAX ((uint64_t)ROWEN_LEDGER_OWNERS_MAX * ENTRIES + (uint64_t)ROWEN_LEDGER_CAPACITY_MAX * 2 * ENTRIES)
_Static_assert(ENTRIES_MAX < UNKNOWN / UINT32_MAX, "all costs of a ledger together are less than the unknown");
_Static_assert(sizeof(struct rowen_ledger_chunk) == ENTRIES * sizeof(uint32_t), "a chunk is so many entries");

/* Eligible handles are known by their rank, from 1, in the caller's order; rank 0 takes in everything else that the
 * ledger names. A place is the index of an entry in `chunks`. */
struct rowen_selection {
    int ledger;
    uint32_t capacity;
    uint32_t owners;
    uint32_t chunk_count;
    struct rowen_ledger_layout layout;

    /* As read from the ledger. */
    uint32_t *tokens;  /* per owner; 0 from when it is affected */
    uint64_t *unknown; /* a bit per handle */
    uint32_t *chunks;  /* ENTRIES of each: the owner, then ranks in place of handles */

    uint32_t *ranks; /* per entry of a chunk, so 1 for handle 0 */
    uint32_t count;  /* ranks */
    uint32_t *handles;
    uint64_t *cost;      /* per rank: tokens of its owners that are not affected yet */
    uint64_t *least;     /* per GROUP of ranks: the least cost of those that cost anything, less 1 */
    unsigned char *stale; /* per group: `least` may be another */
    uint32_t free;       /* ranks that cost nothing */

    uint32_t *newest; /* per owner: the newest of its chunks, or NONE */
    uint32_t *before; /* per chunk: the one before it, of the same owner */
    uint32_t *place;  /* per rank: the newest place that lists it; 0: none */
    uint32_t *beside; /* per place: the one before it that lists the same rank; 0: none */

    uint64_t *affected; /* tokens << 32 | owner */
    uint32_t affected_count;
};

static int32_t check_file(struct rowen_selection *selection) {
    struct rowen_ledger_page page;
    uint64_t bytes;
    /* Only files of memory have seals: reading one never waits for a file system of somebody else's. */
    if (!rowen_memory_sealed(selection->ledger, &bytes) ||
        pread(selection->ledger, &page, sizeof page, 0) != (ssize_t)sizeof page)
        return -EPROTO;
    uint32_t size = atomic_load(&page.size);
    selection->chunk_count = atomic_load(&page.chunks);
    selection->layout = rowen_ledger_layout(size, selection->capacity, selection->owners, selection->chunk_count);
    if (atomic_load(&page.magic) != ROWEN_LEDGER_MAGIC || size < sizeof page ||
        selection->chunk_count > rowen_ledger_chunks(selection->capacity, selection->owners) ||
        selection->layout.end > bytes)
        return -EPROTO;
    return 0;
}

static int32_t set_aside(struct rowen_selection *selection) {
    size_t ranks = selection->capacity + (size_t)1, groups = selection->capacity / GROUP + 1;
    size_t owners = selection->owners, chunks = selection->chunk_count;
    selection->tokens = calloc(owners, sizeof *selection->tokens);
    selection->unknown = calloc(selection->capacity / 64 + 1, sizeof *selection->unknown);
    selection->chunks = calloc(chunks * ENTRIES, sizeof *selection->chunks);
    selection->ranks = calloc(ranks, sizeof *selection->ranks);
    selection->handles = calloc(ranks, sizeof *selection->handles);
    selection->cost = calloc(ranks, sizeof *selection->cost);
    selection->least = calloc(groups, sizeof *selection->least);
    selection->stale = calloc(groups, sizeof *selection->stale);
    selection->newest = calloc(owners, sizeof *selection->newest);
    selection->before = calloc(chunks, sizeof *selection->before);
    selection->place = calloc(ranks, sizeof *selection->place);
    selection->beside = calloc(chunks * ENTRIES, sizeof *selection->beside);
    selection->affected = calloc(owners, sizeof *selection->affected);
    bool complete = selection->tokens && selection->unknown && selection->chunks && selection->ranks &&
                    selection->handles && selection->cost && selection->least && selection->stale &&
                    selection->newest && selection->before && selection->place && selection->beside &&
                    selection->affected;
    return complete ? 0 : -ENOMEM;
}

struct rowen_selection *rowen_selection_open(int32_t ledger, uint32_t capacity, uint32_t owners, int32_t *error) {
    *error = -EINVAL;
    if (capacity < 1 || capacity > ROWEN_LEDGER_CAPACITY_MAX || owners < 1 || owners > ROWEN_LEDGER_OWNERS_MAX)
        return NULL;
    struct rowen_selection *selection = calloc(1, sizeof *selection);
    *error = -ENOMEM;
    if (!selection) return NULL;
    selection->ledger = ledger;
    selection->capacity = capacity;
    selection->owners = owners;
    *error = check_file(selection);
    if (*error == 0) *error = set_aside(selection);
    if (*error == 0) return selection;
    rowen_selection_close(selection);
    return NULL;
}

void rowen_selection_close(struct rowen_selection *selection) {
    void *parts[] = {selection->tokens, selection->unknown, selection->chunks, selection->ranks,  selection->handles,
                     selection->cost,   selection->least,   selection->stale,  selection->newest, selection->before,
                     selection->place,  selection->beside,  selection->affected};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    free(selection);
}

/* Reads from the ledger; what cannot be read is 0. The file is copied, not mapped: what is read twice is the same, and
 * its holes stay holes, so that no memory is charged to the agent. */
static void read_ledger(const struct rowen_selection *selection, void *to, size_t bytes, size_t from) {
    ssize_t length = pread(selection->ledger, to, bytes, (off_t)from);
    if (length < 0) length = 0;
    memset((char *)to + length, 0, bytes - (size_t)length);
}

static void rank_handles(struct rowen_selection *selection, const uint32_t *eligible, uint32_t count) {
    memset(selection->ranks, 0, (selection->capacity + (size_t)1) * sizeof *selection->ranks);
    selection->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t handle = eligible[i];
        if (handle >= selection->capacity || selection->ranks[handle + 1]) continue;
        selection->ranks[handle + 1] = ++selection->count;
        selection->handles[selection->count] = handle;
    }
    memset(selection->cost, 0, (selection->count + (size_t)1) * sizeof *selection->cost);
    memset(selection->place, 0, (selection->count + (size_t)1) * sizeof *selection->place);
    memset(selection->stale, 1, selection->count / GROUP + 1);
    selection->cost[0] = NOBODYS;
}

static void take_in(struct rowen_selection *selection, uint32_t chunk, uint32_t owner) {
    selection->before[chunk] = selection->newest[owner];
    selection->newest[owner] = chunk;
    for (uint32_t place = chunk * ENTRIES + 1; place < (chunk + 1) * ENTRIES; place++) {
        uint32_t entry = selection->chunks[place];
        uint32_t rank = entry <= selection->capacity ? selection->ranks[entry] : 0;
        selection->chunks[place] = rank;
        selection->beside[place] = selection->place[rank];
        selection->place[rank] = place;
        selection->cost[rank] += selection->tokens[owner];
    }
}

/* Returns how many chunks it has read. */
static uint32_t take_snapshot(struct rowen_selection *selection) {
    uint32_t used;
    read_ledger(selection, &used, sizeof used, offsetof(struct rowen_ledger_page, used));
    if (used > selection->chunk_count) used = selection->chunk_count;
    read_ledger(selection, selection->tokens, selection->owners * sizeof *selection->tokens, selection->layout.tokens);
    read_ledger(selection, selection->unknown, selection->capacity / 8 + 1, selection->layout.unknown);
    read_ledger(selection, selection->chunks, used * sizeof(struct rowen_ledger_chunk), selection->layout.chunks);
    memset(selection->newest, 0xff, selection->owners * sizeof *selection->newest);
    for (uint32_t chunk = 0; chunk < used; chunk++) {
        uint32_t owner = selection->chunks[chunk * ENTRIES] - 1;
        if (owner < selection->owners && selection->tokens[owner]) take_in(selection, chunk, owner);
    }
    selection->free = 0;
    for (uint32_t rank = 1; rank <= selection->count; rank++) {
        uint32_t handle = selection->handles[rank];
        if (selection->unknown[handle / 64] >> handle % 64 & 1) selection->cost[rank] |= UNKNOWN;
        selection->free += selection->cost[rank] == 0;
    }
    return used;
}

static void refresh(struct rowen_selection *selection, uint32_t group) {
    uint32_t end = (group + 1) * GROUP <= selection->count ? (group + 1) * GROUP : selection->count + 1;
    uint64_t least = UINT64_MAX;
    for (const uint64_t *cost = selection->cost + group * GROUP; cost < selection->cost + end; cost++)
        least = *cost - 1 < least ? *cost - 1 : least;
    selection->least[group] = least;
    selection->stale[group] = 0;
}

/* The first of the cheapest handles that cost anything. */
static uint32_t cheapest(struct rowen_selection *selection) {
    uint64_t least = UINT64_MAX;
    uint32_t found = 0;
    for (uint32_t group = 0; group <= selection->count / GROUP; group++) {
        if (selection->stale[group]) refresh(selection, group);
        if (selection->least[group] >= least) continue;
        least = selection->least[group];
        found = group;
    }
    uint32_t rank = found * GROUP;
    while (selection->cost[rank] - 1 != least) rank++;
    return rank;
}

/* Takes so much off the cost of each of these. This is most of the work, and which way a branch would go is as good as
 * random: so there is none. */
static void reduce(struct rowen_selection *selection, const uint32_t *restrict ranks, uint32_t n, uint64_t by) {
    uint64_t *restrict costs = selection->cost, *restrict leasts = selection->least;
    unsigned char *restrict stale = selection->stale;
    uint32_t free = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = ranks[i], group = rank / GROUP;
        uint64_t cost = costs[rank] -= by, least = leasts[group];
        free += cost == 0;
        stale[group] |= (cost == 0) & (least == by - 1);
        leasts[group] = cost - 1 < least ? cost - 1 : least;
    }
    selection->free += free;
}

/* The owner loses a handle: none of its others costs anything on its account any more. */
static void affect(struct rowen_selection *selection, uint32_t owner) {
    uint32_t tokens = selection->tokens[owner];
    if (tokens == 0) return;
    selection->tokens[owner] = 0;
    selection->affected[selection->affected_count++] = (uint64_t)tokens << 32 | owner;
    for (uint32_t chunk = selection->newest[owner]; chunk != NONE; chunk = selection->before[chunk])
        reduce(selection, selection->chunks + chunk * ENTRIES + 1, ROWEN_LEDGER_HANDLES, tokens);
}

static void give_up(struct rowen_selection *selection, uint32_t rank) {
    if (selection->cost[rank] & UNKNOWN) reduce(selection, &rank, 1, UNKNOWN);
    for (uint32_t place = selection->place[rank]; place; place = selection->beside[place])
        affect(selection, selection->chunks[place / ENTRIES * ENTRIES] - 1);
}

/* How many handles would not be free without this owner; more than that if it lists one twice. */
static uint32_t freed_by(const struct rowen_selection *selection, uint32_t owner) {
    uint32_t freed = 0;
    for (uint32_t chunk = selection->newest[owner]; chunk != NONE; chunk = selection->before[chunk])
        for (uint32_t place = chunk * ENTRIES + 1; place < (chunk + 1) * ENTRIES; place++)
            freed += selection->cost[selection->chunks[place]] == 0;
    return freed;
}

static void restore(struct rowen_selection *selection, uint32_t owner, uint32_t tokens) {
    for (uint32_t chunk = selection->newest[owner]; chunk != NONE; chunk = selection->before[chunk]) {
        for (uint32_t place = chunk * ENTRIES + 1; place < (chunk + 1) * ENTRIES; place++) {
            uint64_t *cost = &selection->cost[selection->chunks[place]];
            selection->free -= *cost == 0;
            *cost += tokens;
        }
    }
}

static int dearer_first(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a < b) - (a > b);
}

/* The last owners that were affected may have freed more handles than were missing. Spares the dearest owners without
 * whose handles there are still enough; one that cannot be spared now cannot be after the others either. Who has
 * something only in handles of those who were spared loses nothing either, though there is none left over by then. */
static void spare(struct rowen_selection *selection, uint32_t wanted) {
    uint32_t kept = 0;
    if (selection->free == wanted) return;
    qsort(selection->affected, selection->affected_count, sizeof *selection->affected, dearer_first);
    for (uint32_t i = 0; i < selection->affected_count; i++) {
        uint32_t owner = (uint32_t)selection->affected[i];
        if (freed_by(selection, owner) > selection->free - wanted)
            selection->affected[kept++] = selection->affected[i];
        else
            restore(selection, owner, (uint32_t)(selection->affected[i] >> 32));
    }
    selection->affected_count = kept;
}

uint32_t rowen_ledger_choose(struct rowen_selection *selection, const uint32_t *eligible, uint32_t count,
                             uint32_t wanted, uint32_t *chosen, struct rowen_choice *choice) {
    rank_handles(selection, eligible, count);
    uint32_t chunks = take_snapshot(selection);
    *choice = (struct rowen_choice){.free = selection->free, .chunks = chunks};
    selection->affected_count = 0;
    if (wanted > selection->count) wanted = selection->count;
    while (selection->free < wanted) {
        uint32_t rank = cheapest(selection);
        choice->unknown += (selection->cost[rank] & UNKNOWN) != 0;
        give_up(selection, rank);
    }
    spare(selection, wanted);
    uint32_t taken = 0;
    for (uint32_t rank = 1; taken < wanted; rank++)
        if (selection->cost[rank] == 0) chosen[taken++] = selection->handles[rank];
    for (uint32_t i = 0; i < selection->affected_count; i++) choice->tokens += selection->affected[i] >> 32;
    choice->owners = selection->affected_count;
    return wanted;
}
