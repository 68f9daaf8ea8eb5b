#define _GNU_SOURCE
#include "memory/pool/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/file.h"
#include "memory/pool/round.h"

#define HUGE_FREE "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

static bool enough_huge_pages(uint32_t handles, uint64_t handle_bytes) {
    char text[32];
    if (handle_bytes % ROWEN_HUGE_BYTES || !rowen_read(HUGE_FREE, text, sizeof text)) return false;
    return strtoull(text, NULL, 10) >= handles * (handle_bytes / ROWEN_HUGE_BYTES);
}

struct rowen_pool *rowen_pool_open(uint32_t handles, uint64_t handle_bytes, bool huge, int32_t *error) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGE_SIZE);
    *error = -EINVAL;
    if (handles == 0 || handles > ROWEN_POOL_HANDLES || handle_bytes < page || handle_bytes & (handle_bytes - 1))
        return NULL;
    struct rowen_pool *pool = calloc(1, sizeof *pool);
    struct rowen_pick *picks = calloc(handles, sizeof *picks);
    *error = pool && picks ? rowen_make_lock(&pool->lock) : -ENOMEM;
    if (*error) {
        free(pool);
        free(picks);
        return NULL;
    }
    pool->total = handles;
    pool->handle_bytes = handle_bytes;
    pool->huge = huge && enough_huge_pages(handles, handle_bytes);
    pool->picks = picks;
    pool->choose = rowen_choose_highest;
    return pool;
}

void rowen_pool_close(struct rowen_pool *pool) {
    for (uint32_t i = 0; i < pool->count; i++) rowen_member_free(pool->members[i]);
    rowen_book_close(&pool->book);
    pthread_mutex_destroy(&pool->lock);
    free(pool->picks);
    free(pool);
}

static struct rowen_member *find(struct rowen_pool *pool, uint32_t number) {
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->members[i]->number == number && !pool->members[i]->leaving) return pool->members[i];
    return NULL;
}

/* Locks the pool and finds the member. NULL, and not locked: there is none. */
static struct rowen_member *enter(struct rowen_pool *pool, uint32_t number) {
    pthread_mutex_lock(&pool->lock);
    struct rowen_member *member = find(pool, number);
    if (!member) pthread_mutex_unlock(&pool->lock);
    return member;
}

static int32_t leave(struct rowen_pool *pool, int32_t result) {
    pthread_mutex_unlock(&pool->lock);
    return result;
}

int32_t rowen_pool_keep(struct rowen_pool *pool, const char *path) {
    pthread_mutex_lock(&pool->lock);
    return leave(pool, rowen_book_open(&pool->book, path));
}

/* Tenants may make as many processes as they like: some places are kept for engines. */
static bool has_place(const struct rowen_pool *pool, uint32_t kind) {
    uint32_t offline = 0;
    for (uint32_t i = 0; i < pool->count; i++) offline += pool->members[i]->kind == ROWEN_OFFLINE;
    if (kind == ROWEN_OFFLINE && offline >= ROWEN_POOL_OFFLINE) return false;
    return pool->count < ROWEN_POOL_MEMBERS && pool->last_number < INT32_MAX;
}

static void add(struct rowen_pool *pool, struct rowen_member *member) {
    member->number = ++pool->last_number;
    pool->members[pool->count++] = member;
}

int32_t rowen_pool_admit(struct rowen_pool *pool, uint32_t kind, uint32_t capacity, int32_t *arena_fd,
                         int32_t *memory_fd) {
    if (kind != ROWEN_ONLINE && kind != ROWEN_OFFLINE) return -EINVAL;
    if (capacity == 0 || capacity > ROWEN_ARENA_CAPACITY) return -EINVAL;
    int32_t error;
    struct rowen_member *member = rowen_member_make(kind, capacity, pool->handle_bytes, pool->huge, &error);
    if (!member) return error;
    pthread_mutex_lock(&pool->lock);
    if (!has_place(pool, kind)) {
        rowen_member_free(member);
        return leave(pool, -ENOSPC);
    }
    add(pool, member);
    *arena_fd = member->arena_fd;
    *memory_fd = member->memory_fd;
    return leave(pool, (int32_t)member->number);
}

static struct rowen_member *same_memory(struct rowen_pool *pool, const struct rowen_member *as) {
    for (uint32_t i = 0; i < pool->count; i++) {
        struct rowen_member *member = pool->members[i];
        if (member->memory_inode == as->memory_inode && member->memory_device == as->memory_device) return member;
    }
    return NULL;
}

static void write_into(struct rowen_book *book, struct rowen_member *member, int32_t pid) {
    member->entry = rowen_book_enter(book, pid, member->kind);
    member->lent = rowen_book_lent(book, member->entry);
}

/* Grants it what the last agent had lent to it, as far as it holds that; where the book does not say so, what it owned. An
 * engine gets what is free besides; what a tenant says that it holds is worth nothing by itself. */
static void resume(const struct rowen_pool *pool, struct rowen_member *member) {
    uint32_t said = member->entry ? atomic_load(member->lent) : 0;
    uint64_t owned = member->entry ? atomic_load(&member->entry->bytes) / pool->handle_bytes : 0;
    if (member->kind == ROWEN_OFFLINE)
        rowen_member_resume(member, 0, said ? said - 1 : (uint32_t)owned);
    else
        rowen_member_resume(member, rowen_round_free(pool), (uint32_t)owned);
}

/* Who is here already comes again when it took this agent for gone: an engine may have raised its grant by itself. */
static int32_t take_back(struct rowen_pool *pool, struct rowen_member *here) {
    if (here->leaving) return -EBUSY;
    rowen_round_look(pool);
    if (here->kind == ROWEN_ONLINE) {
        uint32_t spare = rowen_round_free(pool) + rowen_member_owned(here);
        rowen_member_resume(here, spare < pool->total ? spare : pool->total, 0);
    }
    return (int32_t)here->number;
}

static int32_t take_in(struct rowen_pool *pool, struct rowen_member *member, int32_t pid) {
    struct rowen_member *here = same_memory(pool, member);
    if (here) return take_back(pool, here);
    if (!has_place(pool, member->kind)) return -ENOSPC;
    write_into(&pool->book, member, pid);
    rowen_round_look(pool);
    resume(pool, member);
    add(pool, member);
    return (int32_t)member->number;
}

int32_t rowen_pool_adopt(struct rowen_pool *pool, uint32_t kind, int32_t pid, int32_t arena_fd, int32_t memory_fd) {
    if (kind != ROWEN_ONLINE && kind != ROWEN_OFFLINE) return -EINVAL;
    int32_t error;
    struct rowen_member *member = rowen_member_adopt(kind, arena_fd, memory_fd, pool->handle_bytes, &error);
    if (!member) return error;
    pthread_mutex_lock(&pool->lock);
    int32_t number = take_in(pool, member, pid);
    if (number < 0 || member->number != (uint32_t)number) rowen_member_free(member);
    return leave(pool, number);
}

int32_t rowen_pool_name(struct rowen_pool *pool, uint32_t number, int32_t pid) {
    struct rowen_member *member = enter(pool, number);
    if (!member) return -ENOENT;
    rowen_book_forget(&pool->book, pid);
    write_into(&pool->book, member, pid);
    return leave(pool, member->entry || !pool->book.file ? 0 : -ENOSPC);
}

void rowen_pool_forget(struct rowen_pool *pool, int32_t pid) {
    pthread_mutex_lock(&pool->lock);
    rowen_book_forget(&pool->book, pid);
    pthread_mutex_unlock(&pool->lock);
}

static void forget(struct rowen_pool *pool, const struct rowen_member *member) {
    uint32_t i = 0;
    while (pool->members[i] != member) i++;
    pool->count--;
    memmove(&pool->members[i], &pool->members[i + 1], (pool->count - i) * sizeof pool->members[0]);
}

int32_t rowen_pool_dismiss(struct rowen_pool *pool, uint32_t number) {
    struct rowen_member *member = enter(pool, number);
    if (!member) return -ENOENT;
    member->leaving = true;
    pthread_mutex_unlock(&pool->lock);
    /* Not under the lock: that much memory may take the kernel a while. */
    rowen_memory_punch(member->memory_fd, 0, member->capacity * member->handle_bytes);
    pthread_mutex_lock(&pool->lock);
    forget(pool, member);
    rowen_book_strike(&pool->book, member->entry);
    rowen_member_free(member);
    return leave(pool, 0);
}

int32_t rowen_pool_demand(struct rowen_pool *pool, uint32_t number, uint32_t pressures, uint32_t target,
                          uint32_t growth, double threshold) {
    struct rowen_member *member = enter(pool, number);
    if (!member) return -ENOENT;
    if (member->kind != ROWEN_ONLINE || target > member->capacity || growth > member->capacity ||
        !(threshold > 0 && threshold <= 1))
        return leave(pool, -EINVAL);
    if (member->pressures != pressures) return leave(pool, -EAGAIN);
    member->target = target;
    member->growth = growth;
    member->threshold = threshold;
    return leave(pool, 0);
}

int32_t rowen_pool_bound(struct rowen_pool *pool, uint32_t number, uint32_t bound) {
    struct rowen_member *member = enter(pool, number);
    if (!member) return -ENOENT;
    if (member->kind != ROWEN_ONLINE || bound > member->capacity) return leave(pool, -EINVAL);
    member->bound = bound;
    return leave(pool, 0);
}

void rowen_pool_fix(struct rowen_pool *pool, uint32_t handles) {
    pthread_mutex_lock(&pool->lock);
    pool->fixed_target = handles < pool->total ? handles : pool->total;
    if (pool->fixed > pool->fixed_target) pool->fixed = pool->fixed_target;
    pthread_mutex_unlock(&pool->lock);
}

bool rowen_pool_lacks(struct rowen_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    bool lacks = pool->lacks;
    pthread_mutex_unlock(&pool->lock);
    return lacks;
}

bool rowen_pool_owes(struct rowen_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    bool owes = pool->owes;
    pthread_mutex_unlock(&pool->lock);
    return owes;
}

int32_t rowen_pool_share(struct rowen_pool *pool, uint32_t number, uint32_t request, uint32_t limit) {
    struct rowen_member *member = enter(pool, number);
    if (!member) return -ENOENT;
    if (member->kind != ROWEN_OFFLINE || request > limit || limit > member->capacity) return leave(pool, -EINVAL);
    member->request = request;
    member->limit = limit;
    return leave(pool, 0);
}

int32_t rowen_pool_grant(struct rowen_pool *pool, uint32_t number, uint32_t handles) {
    struct rowen_member *member = enter(pool, number);
    if (!member) return -ENOENT;
    if (handles > member->capacity) return leave(pool, -EINVAL);
    rowen_round_look(pool);
    if (handles < member->grant) rowen_member_grant(member, handles);
    else rowen_member_raise(member, handles, rowen_round_free(pool));
    return leave(pool, (int32_t)member->grant);
}

int32_t rowen_pool_reclaim(struct rowen_pool *pool, uint32_t number, const uint32_t *handles, uint32_t count) {
    struct rowen_member *member = enter(pool, number);
    if (!member) return -ENOENT;
    rowen_member_look(member);
    for (uint32_t i = 0; i < count; i++)
        if (handles[i] < member->capacity) member->picked[handles[i]] = 1;
    uint32_t from = 0;
    uint32_t taken = rowen_member_take(member, &from, member->capacity);
    rowen_round_count(pool, taken, 0);
    return leave(pool, (int32_t)taken);
}

void rowen_pool_settle(struct rowen_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < pool->count; i++) {
        struct rowen_member *member = pool->members[i];
        if (member->leaving || !member->unsettled) continue;
        rowen_member_look(member);
        rowen_member_scour(member);
        member->unsettled = false;
    }
    pthread_mutex_unlock(&pool->lock);
}

void rowen_pool_choose(struct rowen_pool *pool, rowen_chooser *choose, void *context) {
    pthread_mutex_lock(&pool->lock);
    pool->choose = choose ? choose : rowen_choose_highest;
    pool->context = context;
    pthread_mutex_unlock(&pool->lock);
}

static uint32_t beyond(uint32_t value, uint32_t bound) { return value > bound ? value - bound : 0; }

static struct rowen_member_status status_of(const struct rowen_member *member) {
    return (struct rowen_member_status){
        .member = member->number,
        .kind = member->kind,
        .granted = member->grant,
        .owned = rowen_member_owned(member),
        .held = member->held,
        .used = member->used,
        .wanted = member->wanted,
        .really = member->really,
        .overdrawn = beyond(member->really, member->ceiling),
        .stubborn = member->over_ns >= ROWEN_RETURN_NS ? beyond(rowen_member_owned(member), member->grant) : 0,
        .target = member->target,
        .pressures = member->pressures,
        .capacity = member->capacity,
        .bound = member->bound,
        .taken = member->taken,
    };
}

void rowen_pool_status(struct rowen_pool *pool, struct rowen_pool_status *status) {
    pthread_mutex_lock(&pool->lock);
    rowen_round_look(pool);
    *status = (struct rowen_pool_status){
        .handle_bytes = pool->handle_bytes,
        .page_bytes = pool->huge ? ROWEN_HUGE_BYTES : (uint64_t)sysconf(_SC_PAGE_SIZE),
        .reclaims = pool->reclaims,
        .handles_reclaimed = pool->handles_reclaimed,
        .handles_for_engines = pool->handles_for_engines,
        .total = pool->total,
        .free = rowen_round_free(pool),
        .deficit = pool->deficit,
        .members = pool->count,
        .fixed = pool->fixed,
        .engines_absent = rowen_round_handles(pool, pool->book.absent_online_bytes),
    };
    for (uint32_t i = 0; i < pool->count; i++) status->member[i] = status_of(pool->members[i]);
    pthread_mutex_unlock(&pool->lock);
}
