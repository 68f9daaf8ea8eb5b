#define _GNU_SOURCE
#include "memory/ledger/ledgers.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "memory/ledger/ledger.h"
#include "memory/ledger/selection.h"
#include "memory/pool/pool.h"

/* Handles, and places of handles in chunks, that are looked at to compare members: some 10 ms, while the engine waits.
 * By count and not by the clock, so that a busy machine chooses as an idle one does. */
#define LOOK_MAX (1u << 21)

struct entry {
    uint32_t member;
    uint32_t capacity;
    int fd;
    struct rowen_selection *selection;
    uint32_t *eligible;
    uint32_t *chosen;
};

struct rowen_ledgers {
    pthread_mutex_t lock;
    struct entry entries[ROWEN_POOL_MEMBERS];
    uint32_t count;
    uint64_t tokens; /* of what was chosen so far */
};

/* What one candidate would lose. */
struct offer {
    const struct rowen_candidate *candidate;
    struct entry *entry; /* NULL: it goes last */
    uint32_t held;
    uint32_t free; /* that cost nothing, and may be taken */
    uint32_t give;
    bool unknown;
    double price; /* tokens per handle that costs some */
};

struct rowen_ledgers *rowen_ledgers_open(void) {
    struct rowen_ledgers *ledgers = calloc(1, sizeof *ledgers);
    if (!ledgers || rowen_make_lock(&ledgers->lock) == 0) return ledgers;
    free(ledgers);
    return NULL;
}

static void free_entry(struct entry *entry) {
    if (entry->selection) rowen_selection_close(entry->selection);
    if (entry->fd >= 0) close(entry->fd);
    free(entry->eligible);
    free(entry->chosen);
}

void rowen_ledgers_close(struct rowen_ledgers *ledgers) {
    for (uint32_t i = 0; i < ledgers->count; i++) free_entry(&ledgers->entries[i]);
    pthread_mutex_destroy(&ledgers->lock);
    free(ledgers);
}

/* The entry has the descriptor then, whatever is returned. */
static int32_t make_entry(struct entry *entry, uint32_t member, uint32_t capacity, uint32_t owners, int fd) {
    *entry = (struct entry){.member = member, .capacity = capacity, .fd = fd};
    if (fd < 0) return fd;
    int32_t error;
    entry->selection = rowen_selection_open(fd, capacity, owners, &error);
    if (!entry->selection) return error;
    entry->eligible = calloc(capacity, sizeof *entry->eligible);
    entry->chosen = calloc(capacity, sizeof *entry->chosen);
    return entry->eligible && entry->chosen ? 0 : -ENOMEM;
}

static struct entry *find(struct rowen_ledgers *ledgers, uint32_t member) {
    for (uint32_t i = 0; i < ledgers->count; i++)
        if (ledgers->entries[i].member == member) return &ledgers->entries[i];
    return NULL;
}

static int32_t add(struct rowen_ledgers *ledgers, uint32_t member, uint32_t capacity, uint32_t owners, int fd) {
    struct entry entry;
    int32_t error = make_entry(&entry, member, capacity, owners, fd);
    pthread_mutex_lock(&ledgers->lock);
    if (!error && find(ledgers, member)) error = -EEXIST;
    if (!error && ledgers->count == ROWEN_POOL_MEMBERS) error = -ENOSPC;
    if (!error) ledgers->entries[ledgers->count++] = entry;
    pthread_mutex_unlock(&ledgers->lock);
    if (error) free_entry(&entry);
    return error ? error : fd;
}

int32_t rowen_ledgers_admit(struct rowen_ledgers *ledgers, uint32_t member, uint32_t capacity, uint32_t owners) {
    return add(ledgers, member, capacity, owners, rowen_ledger_make(capacity, owners));
}

int32_t rowen_ledgers_adopt(struct rowen_ledgers *ledgers, uint32_t member, uint32_t capacity, uint32_t owners,
                            int32_t ledger) {
    int fd = fcntl(ledger, F_DUPFD_CLOEXEC, 0);
    int32_t found = fd < 0 ? -errno : add(ledgers, member, capacity, owners, fd);
    return found < 0 ? found : 0;
}

int32_t rowen_ledgers_dismiss(struct rowen_ledgers *ledgers, uint32_t member) {
    pthread_mutex_lock(&ledgers->lock);
    struct entry *found = find(ledgers, member);
    struct entry gone = {.fd = -1};
    if (found) {
        gone = *found;
        *found = ledgers->entries[--ledgers->count];
    }
    pthread_mutex_unlock(&ledgers->lock);
    free_entry(&gone);
    return found ? 0 : -ENOENT;
}

static uint32_t lesser(uint32_t one, uint32_t other) { return one < other ? one : other; }

static struct rowen_choice choose(const struct offer *offer, uint32_t wanted) {
    struct rowen_choice choice;
    rowen_ledger_choose(offer->entry->selection, offer->entry->eligible, offer->held, wanted, offer->entry->chosen,
                        &choice);
    return choice;
}

/* Lists what a candidate holds, the highest first. */
static void list_held(struct rowen_ledgers *ledgers, struct offer *offer) {
    const struct rowen_candidate *candidate = offer->candidate;
    struct entry *entry = find(ledgers, candidate->member);
    if (!entry || entry->capacity != candidate->capacity) return;
    offer->entry = entry;
    for (uint32_t handle = candidate->capacity; handle-- > 0;)
        if (candidate->held[handle]) entry->eligible[offer->held++] = handle;
}

static void set_price(struct offer *offer, uint32_t missing) {
    uint32_t more = lesser(missing, offer->candidate->most - offer->free);
    if (!offer->entry || more == 0) return;
    struct rowen_choice choice = choose(offer, offer->free + more);
    offer->unknown = choice.unknown != 0;
    offer->price = (double)choice.tokens / more;
}

static int cheaper_first(const void *left, const void *right) {
    const struct offer *a = left, *b = right;
    int late = (a->entry == NULL) - (b->entry == NULL), unknown = a->unknown - b->unknown;
    if (late || unknown) return late ? late : unknown;
    return (a->price > b->price) - (a->price < b->price);
}

/* Hands out `need` among several candidates; what costs nothing first. */
static void share(struct offer *offers, uint32_t count, uint32_t need) {
    uint64_t looked = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (looked > LOOK_MAX) offers[i].entry = NULL;
        if (offers[i].entry) {
            struct rowen_choice choice = choose(&offers[i], 0);
            offers[i].free = lesser(choice.free, offers[i].candidate->most);
            looked += offers[i].candidate->capacity + (uint64_t)choice.chunks * ROWEN_LEDGER_HANDLES;
        }
        offers[i].give = lesser(offers[i].free, need);
        need -= offers[i].give;
    }
    if (need == 0) return;
    for (uint32_t i = 0; i < count; i++) set_price(&offers[i], need);
    qsort(offers, count, sizeof *offers, cheaper_first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t more = lesser(need, offers[i].candidate->most - offers[i].give);
        offers[i].give += more;
        need -= more;
    }
}

/* A ledger that lies shall not make the sum of all overflow. */
static uint64_t lesser_tokens(uint64_t tokens) { return tokens < UINT32_MAX ? tokens : UINT32_MAX; }

/* Writes the picks of an offer; returns how many. */
static uint32_t pick(struct rowen_ledgers *ledgers, const struct offer *offer, struct rowen_pick *picks) {
    const struct rowen_candidate *candidate = offer->candidate;
    uint32_t n = 0;
    if (!offer->entry) {
        for (uint32_t handle = candidate->capacity; handle-- > 0 && n < offer->give;)
            if (candidate->held[handle]) picks[n++] = (struct rowen_pick){candidate->member, handle};
        return n;
    }
    if (offer->give) ledgers->tokens += lesser_tokens(choose(offer, offer->give).tokens);
    for (; n < lesser(offer->give, offer->held); n++)
        picks[n] = (struct rowen_pick){candidate->member, offer->entry->chosen[n]};
    return n;
}

uint64_t rowen_ledgers_tokens(struct rowen_ledgers *ledgers) {
    pthread_mutex_lock(&ledgers->lock);
    uint64_t tokens = ledgers->tokens;
    pthread_mutex_unlock(&ledgers->lock);
    return tokens;
}

uint32_t rowen_choose_cheapest(void *context, const struct rowen_candidate *candidates, uint32_t count, uint32_t need,
                               struct rowen_pick *picks) {
    struct rowen_ledgers *ledgers = context;
    struct offer offers[ROWEN_POOL_MEMBERS];
    uint32_t picked = 0;
    pthread_mutex_lock(&ledgers->lock);
    for (uint32_t i = 0; i < count; i++) {
        offers[i] = (struct offer){.candidate = &candidates[i]};
        list_held(ledgers, &offers[i]);
    }
    if (count == 1)
        offers[0].give = lesser(need, candidates[0].most);
    else
        share(offers, count, need);
    for (uint32_t i = 0; i < count; i++) picked += pick(ledgers, &offers[i], picks + picked);
    pthread_mutex_unlock(&ledgers->lock);
    return picked;
}
