#define _GNU_SOURCE
#include "memory/pool/member.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/file.h"

static uint64_t page_bytes(uint32_t size, uint32_t capacity) { return size + capacity * sizeof(_Atomic uint32_t); }

/* Maps the page, whose states begin at `size`, and notes which file the memory is. */
static int32_t map_files(struct rowen_member *member, uint32_t size) {
    struct stat info;
    if (fstat(member->memory_fd, &info) != 0) return -errno;
    member->memory_device = info.st_dev;
    member->memory_inode = info.st_ino;
    member->page_bytes = page_bytes(size, member->capacity);
    void *page = mmap(NULL, member->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, member->arena_fd, 0);
    if (page == MAP_FAILED) return -errno;
    member->page = page;
    member->state = (_Atomic uint32_t *)((char *)page + size);
    return 0;
}

static int32_t make_files(struct rowen_member *member, bool huge) {
    const uint32_t size = sizeof *member->page;
    member->arena_fd = rowen_memory_make("rowen-arena", page_bytes(size, member->capacity), false);
    if (member->arena_fd < 0) return member->arena_fd;
    member->memory_fd = rowen_memory_make("rowen-memory", member->capacity * member->handle_bytes, huge);
    if (member->memory_fd < 0) return member->memory_fd;
    int32_t error = map_files(member, size);
    if (error) return error;
    atomic_store(&member->page->size, size);
    atomic_store(&member->page->handle_bytes, member->handle_bytes);
    atomic_store(&member->page->capacity, member->capacity);
    atomic_store(&member->page->magic, ROWEN_ARENA_MAGIC);
    return 0;
}

/* A member without files. */
static struct rowen_member *prepare(uint32_t kind, uint32_t capacity, uint64_t handle_bytes) {
    struct rowen_member *member = calloc(1, sizeof *member);
    if (!member) return NULL;
    *member = (struct rowen_member){
        .kind = kind,
        .capacity = capacity,
        .handle_bytes = handle_bytes,
        .arena_fd = -1,
        .memory_fd = -1,
        .threshold = 1,
        .bound = capacity,
        .holds = calloc(capacity, 1),
        .picked = calloc(capacity, 1),
    };
    if (member->holds && member->picked) return member;
    rowen_member_free(member);
    return NULL;
}

struct rowen_member *rowen_member_make(uint32_t kind, uint32_t capacity, uint64_t handle_bytes, bool huge,
                                       int32_t *error) {
    *error = -ENOMEM;
    struct rowen_member *member = prepare(kind, capacity, handle_bytes);
    if (!member) return NULL;
    *error = make_files(member, huge);
    if (*error == 0) return member;
    rowen_member_free(member);
    return NULL;
}

/* What a page says of itself, read once. */
struct shape {
    uint32_t size, capacity;
};

static bool read_shape(int fd, uint64_t handle_bytes, struct shape *shape) {
    struct rowen_arena_page page;
    if (pread(fd, &page, ROWEN_ARENA_LEAST, 0) != ROWEN_ARENA_LEAST) return false;
    *shape = (struct shape){page.size, page.capacity};
    return page.magic == ROWEN_ARENA_MAGIC && page.handle_bytes == handle_bytes && shape->size >= ROWEN_ARENA_LEAST &&
           shape->size <= ROWEN_ARENA_MOST && shape->size % sizeof(uint32_t) == 0 && shape->capacity > 0 &&
           shape->capacity <= ROWEN_ARENA_CAPACITY;
}

static int32_t check_files(int arena_fd, int memory_fd, uint64_t handle_bytes, struct shape *shape) {
    uint64_t arena_bytes, memory_bytes;
    if (!rowen_memory_usable(arena_fd, &arena_bytes) || !rowen_memory_usable(memory_fd, &memory_bytes)) return -EPERM;
    /* A page of which the kernel has none left would make the agent fault: no huge ones for the states. */
    uint64_t arena_page = rowen_memory_page_bytes(arena_fd), memory_page = rowen_memory_page_bytes(memory_fd);
    if (arena_page != (uint64_t)sysconf(_SC_PAGE_SIZE) || memory_page == 0 || handle_bytes % memory_page) return -EPROTO;
    if (!read_shape(arena_fd, handle_bytes, shape) || page_bytes(shape->size, shape->capacity) > arena_bytes)
        return -EPROTO;
    /* Before it was sealed, memory may have been given to what lies behind its end. */
    uint64_t most = shape->capacity * handle_bytes;
    return memory_bytes == most && rowen_memory_held(memory_fd) <= most ? 0 : -EPROTO;
}

static int32_t keep(int fd, int *kept) {
    *kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return *kept < 0 ? -errno : 0;
}

struct rowen_member *rowen_member_adopt(uint32_t kind, int arena_fd, int memory_fd, uint64_t handle_bytes,
                                        int32_t *error) {
    struct shape shape;
    *error = check_files(arena_fd, memory_fd, handle_bytes, &shape);
    if (*error) return NULL;
    *error = -ENOMEM;
    struct rowen_member *member = prepare(kind, shape.capacity, handle_bytes);
    if (!member) return NULL;
    *error = keep(arena_fd, &member->arena_fd);
    if (!*error) *error = keep(memory_fd, &member->memory_fd);
    if (!*error) *error = map_files(member, shape.size);
    if (!*error) return member;
    rowen_member_free(member);
    return NULL;
}

void rowen_member_free(struct rowen_member *member) {
    if (member->page) munmap(member->page, member->page_bytes);
    if (member->arena_fd >= 0) close(member->arena_fd);
    if (member->memory_fd >= 0) close(member->memory_fd);
    free(member->holds);
    free(member->picked);
    free(member);
}

static uint32_t at_most(uint32_t value, uint32_t bound) { return value < bound ? value : bound; }

static void measure(struct rowen_member *member) {
    uint64_t bytes = rowen_memory_held(member->memory_fd);
    member->really = (uint32_t)((bytes + member->handle_bytes - 1) / member->handle_bytes);
}

/* For the next agent. What grows is written down before the member may have it, what shrinks when it has not. */
static void write_down(struct rowen_member *member) {
    if (!member->entry) return;
    atomic_store(&member->entry->bytes, rowen_member_owned(member) * member->handle_bytes);
    atomic_store(member->lent, 1 + member->ceiling);
}

void rowen_member_look(struct rowen_member *member) {
    struct rowen_arena_page *page = member->page;
    member->held = 0;
    for (uint32_t handle = 0; handle < member->capacity; handle++) {
        member->holds[handle] = atomic_load(&member->state[handle]) == ROWEN_HANDLE_HELD;
        member->held += member->holds[handle];
    }
    member->used = at_most(atomic_load(&page->used), member->capacity);
    member->wanted = at_most(atomic_load(&page->want), member->capacity);
    measure(member);
    /* What is not held now, it may not hold later either: map() reads the grant after it has said that it holds. */
    uint32_t claim = at_most(member->held, member->ceiling);
    member->ceiling = claim > member->grant ? claim : member->grant;
    write_down(member);
}

void rowen_member_grant(struct rowen_member *member, uint32_t handles) {
    uint32_t before = member->grant;
    member->grant = handles;
    if (handles > member->ceiling) {
        member->ceiling = handles;
        write_down(member);
    }
    atomic_store(&member->page->grant, handles);
    if (handles > before) rowen_wake(&member->page->grant, true);
    if (handles < before) rowen_member_look(member);
}

uint32_t rowen_member_raise(struct rowen_member *member, uint32_t aim, uint32_t spare) {
    uint32_t before = member->ceiling;
    uint32_t grant = at_most(aim, before + spare);
    if (grant > member->grant) rowen_member_grant(member, grant);
    return grant > before ? spare - (grant - before) : spare;
}

void rowen_member_resume(struct rowen_member *member, uint32_t spare, uint32_t lent) {
    /* Should this agent end here, the next finds that in the book. */
    member->ceiling = at_most(lent, member->capacity);
    rowen_member_look(member);
    uint32_t own = member->kind == ROWEN_ONLINE ? member->really : lent;
    uint32_t most = own > spare ? own : spare;
    member->ceiling = at_most(most, member->capacity);
    member->grant = member->target = member->limit = at_most(member->held, most);
    atomic_store(&member->page->grant, member->grant);
    rowen_member_look(member);
    /* The last agent may have died between taking a handle and saying so. */
    uint32_t taken = atomic_load(&member->page->taken);
    for (uint32_t handle = 0; handle < member->capacity; handle++) {
        if (atomic_load(&member->state[handle]) != ROWEN_HANDLE_TAKEN) continue;
        taken++;
        break;
    }
    atomic_store(&member->page->taken, taken);
    member->taken = taken;
    member->unsettled = member->kind == ROWEN_OFFLINE;
}

static void punch(struct rowen_member *member, uint32_t first, uint32_t count) {
    if (count) rowen_memory_punch(member->memory_fd, first * member->handle_bytes, count * member->handle_bytes);
}

static bool take_one(struct rowen_member *member, uint32_t handle) {
    uint32_t held = ROWEN_HANDLE_HELD;
    member->picked[handle] = 0;
    if (!atomic_compare_exchange_strong(&member->state[handle], &held, ROWEN_HANDLE_TAKEN)) return false;
    member->holds[handle] = 0;
    return true;
}

static void account(struct rowen_member *member, uint32_t taken) {
    member->held -= at_most(taken, member->held);
    member->ceiling -= at_most(taken, member->ceiling);
    if (member->grant > member->ceiling) {
        member->grant = member->ceiling;
        atomic_store(&member->page->grant, member->grant);
    }
    member->taken += taken;
    atomic_store(&member->page->taken, (uint32_t)member->taken);
    member->unsettled = true;
    measure(member);
    write_down(member);
}

uint32_t rowen_member_take(struct rowen_member *member, uint32_t *from, uint32_t most) {
    uint32_t taken = 0, first = 0, run = 0;
    for (; *from < member->capacity && taken < most; ++*from) {
        if (!member->picked[*from] || !take_one(member, *from)) continue;
        taken++;
        if (run && first + run == *from) {
            run++;
            continue;
        }
        punch(member, first, run);
        first = *from;
        run = 1;
    }
    punch(member, first, run);
    if (taken) account(member, taken);
    return taken;
}

void rowen_member_scour(struct rowen_member *member) {
    uint32_t first = 0;
    for (uint32_t handle = 0; handle < member->capacity; handle++) {
        if (!member->holds[handle]) continue;
        punch(member, first, handle - first);
        first = handle + 1;
    }
    punch(member, first, member->capacity - first);
    measure(member);
}
