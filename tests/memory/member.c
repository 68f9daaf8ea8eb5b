/* A process that has memory of a pool: does what it is told, line by line. Its first thread is the control thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/arena/arena.h"

#define THREADS 16
#define WORDS (handle_bytes / sizeof(uint64_t))

static struct rowen_arena *arena;
static uint64_t handle_bytes, tag;
static uint32_t capacity;
static volatile uint64_t *base;

int rowen_real_sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    return sigaction(number, action, old);
}

/* The storm: one thread maps and unmaps, the others write everywhere, mapped or not. All that may ever be read is zero
 * or this process's own tag. */

static _Atomic bool calm;
static _Atomic uint64_t foreign, maps, losses;
static pthread_t threads[THREADS];
static int thread_count, tag_file;

static uint32_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33);
}

static void check_word(uint64_t word) {
    if (word != 0 && word != tag) atomic_fetch_add(&foreign, 1);
}

static void *scribble(void *seed) {
    uint64_t state = (uintptr_t)seed;
    while (!atomic_load(&calm)) {
        volatile uint64_t *word = base + (uint64_t)(draw(&state) % capacity) * WORDS + draw(&state) % WORDS;
        check_word(*word);
        *word = tag;
    }
    return NULL;
}

/* The kernel writes for this one: its threads are stopped in there, in the middle of a handle. */
static void *copy_in(void *seed) {
    uint64_t state = (uintptr_t)seed;
    while (!atomic_load(&calm)) {
        char *at = (char *)base + (uint64_t)(draw(&state) % capacity) * handle_bytes;
        if (pread(tag_file, at, handle_bytes, 0) != (ssize_t)handle_bytes) abort();
    }
    return NULL;
}

static void *own(void *seed) {
    uint64_t state = (uintptr_t)seed;
    uint32_t *lost = malloc(capacity * sizeof *lost);
    bool *mapped = calloc(capacity, sizeof *mapped);
    while (!atomic_load(&calm)) {
        int32_t count = rowen_arena_lost(arena, lost);
        for (int32_t i = 0; i < count; i++) {
            if (!mapped[lost[i]]) abort(); /* it has never said that it was mapped */
            mapped[lost[i]] = false;
        }
        atomic_fetch_add(&losses, (uint64_t)count);
        uint32_t handle = draw(&state) % capacity;
        if (mapped[handle]) {
            if (rowen_arena_unmap(arena, &handle, 1) != 0) abort();
            mapped[handle] = false;
        } else {
            int32_t got = rowen_arena_map(arena, &handle, 1);
            if (got < 0) abort();
            mapped[handle] = got == 1;
            atomic_fetch_add(&maps, (uint64_t)got);
        }
    }
    int32_t count = rowen_arena_lost(arena, lost);
    atomic_fetch_add(&losses, (uint64_t)count);
    for (int32_t i = 0; i < count; i++) mapped[lost[i]] = false;
    for (uint32_t handle = 0; handle < capacity; handle++)
        if (mapped[handle] && rowen_arena_unmap(arena, &handle, 1) != 0) abort();
    free(lost);
    free(mapped);
    return NULL;
}

static void start_storm(uint64_t seed) {
    char *tags = malloc(handle_bytes);
    for (uint64_t i = 0; i < WORDS; i++) memcpy(tags + i * sizeof tag, &tag, sizeof tag);
    tag_file = memfd_create("tags", 0);
    if (write(tag_file, tags, handle_bytes) != (ssize_t)handle_bytes) abort();
    free(tags);
    void *(*const work[])(void *) = {own, scribble, scribble, copy_in};
    for (thread_count = 0; thread_count < 4; thread_count++)
        pthread_create(&threads[thread_count], NULL, work[thread_count], (void *)(uintptr_t)(seed + thread_count));
}

static void end_storm(void) {
    atomic_store(&calm, true);
    while (thread_count) pthread_join(threads[--thread_count], NULL);
    printf("%lu %lu %lu\n", atomic_load(&foreign), atomic_load(&maps), atomic_load(&losses));
}

/* One command each. */

static void fill(uint32_t handle, uint64_t value) {
    for (uint64_t i = 0; i < WORDS; i++) base[handle * WORDS + i] = value;
    puts("0");
}

static void show(uint32_t handle) {
    uint64_t first = base[handle * WORDS];
    for (uint64_t i = 1; i < WORDS; i++) {
        if (base[handle * WORDS + i] == first) continue;
        puts("mixed");
        return;
    }
    printf("%lu\n", first);
}

static bool never(void) { return false; }

static void park(void) {
    struct rowen_stopper stopper = {.control_tid = (pid_t)syscall(SYS_gettid)};
    rowen_stop_all(&stopper, never);
    puts("0");
}

static void go_on(void) {
    printf("%d\n", rowen_arena_quarantine(arena));
    rowen_go_all();
}

static void show_lost(void) {
    uint32_t *lost = malloc(capacity * sizeof *lost);
    int32_t count = rowen_arena_lost(arena, lost);
    for (int32_t i = 0; i < count; i++) printf("%u ", lost[i]);
    puts("");
    free(lost);
}

static void obey(const char *command, const uint32_t *values, uint32_t count) {
    if (!strcmp(command, "map")) printf("%d\n", rowen_arena_map(arena, values, count));
    else if (!strcmp(command, "unmap")) printf("%d\n", rowen_arena_unmap(arena, values, count));
    else if (!strcmp(command, "lost")) show_lost();
    else if (!strcmp(command, "want")) rowen_arena_want(arena, values[0]), puts("0");
    else if (!strcmp(command, "use")) rowen_arena_use(arena, values[0]), puts("0");
    else if (!strcmp(command, "wait")) printf("%d\n", rowen_arena_wait(arena, values[0], 20 * ROWEN_SECOND));
    else if (!strcmp(command, "fill")) fill(values[0], values[1]);
    else if (!strcmp(command, "show")) show(values[0]);
    else if (!strcmp(command, "park")) park();
    else if (!strcmp(command, "go")) go_on();
    else if (!strcmp(command, "storm")) start_storm(values[0]), puts("0");
    else if (!strcmp(command, "losses")) printf("%lu\n", atomic_load(&losses));
    else if (!strcmp(command, "calm")) end_storm();
    else abort();
}

int main(int count, char **arguments) {
    (void)count;
    int32_t error;
    arena = rowen_arena_open(atoi(arguments[1]), atoi(arguments[2]), &error);
    if (!arena) return 2;
    tag = strtoull(arguments[3], NULL, 10);
    base = rowen_arena_base(arena);
    capacity = rowen_arena_capacity(arena);
    handle_bytes = rowen_arena_handle_bytes(arena);
    rowen_stop_reset();
    if (rowen_stop_install() != 0) return 3;
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("0");
    uint32_t *values = malloc((capacity + 2) * sizeof *values);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        char *rest = line, *command = strsep(&rest, " \n");
        uint32_t n = 0;
        for (char *word; (word = strsep(&rest, " \n"));)
            if (*word && n < capacity + 2) values[n++] = (uint32_t)strtoul(word, NULL, 10);
        obey(command, values, n);
    }
    return 0;
}
