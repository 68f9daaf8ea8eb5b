#define _GNU_SOURCE
#include "memory/pool/book.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/pool/pool.h"
#include "shared/page.h"

#define MAGIC 0x4b4f4f424e574f52ull
#define LOOK_NS (100 * ROWEN_MS)
#define SIZE offsetof(struct rowen_book_file, lent)

int32_t rowen_book_open(struct rowen_book *book, const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    void *file = MAP_FAILED;
    if (ftruncate(fd, sizeof *book->file) == 0)
        file = mmap(NULL, sizeof *book->file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int32_t error = file == MAP_FAILED ? -errno : 0;
    close(fd);
    if (error) return error;
    book->file = file;
    if (book->file->magic != MAGIC || book->file->size != SIZE) {
        memset(book->file, 0, sizeof *book->file);
        book->file->size = SIZE;
        book->file->magic = MAGIC;
    }
    rowen_book_look(book, rowen_now());
    return 0;
}

void rowen_book_close(struct rowen_book *book) {
    if (book->file) munmap(book->file, sizeof *book->file);
    book->file = NULL;
}

/* When the process began, in the kernel's ticks; 0: it has ended. */
static uint64_t start_of(int32_t pid) {
    char path[32], text[1024], state;
    unsigned long long started;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *rest = rowen_stat(path, text, sizeof text);
    /* State, 18 numbers, the start. */
    if (!rest || sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                        &state, &started) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : started;
}

static void count_absent(struct rowen_book *book) {
    book->absent_bytes = book->absent_online_bytes = 0;
    for (uint32_t i = 0; i < ROWEN_BOOK_ENTRIES; i++) {
        const struct rowen_book_entry *entry = &book->file->entries[i];
        if (!atomic_load(&entry->pid) || book->present[i]) continue;
        uint64_t bytes = atomic_load(&entry->bytes);
        book->absent_bytes += bytes;
        if (atomic_load(&entry->kind) == ROWEN_ONLINE) book->absent_online_bytes += bytes;
    }
}

/* The entry of a process that is still to come, or of nobody (0). */
static struct rowen_book_entry *find(struct rowen_book *book, int32_t pid) {
    for (uint32_t i = 0; i < ROWEN_BOOK_ENTRIES; i++)
        if (!book->present[i] && atomic_load(&book->file->entries[i].pid) == pid) return &book->file->entries[i];
    return NULL;
}

_Atomic uint32_t *rowen_book_lent(struct rowen_book *book, const struct rowen_book_entry *entry) {
    return entry ? &book->file->lent[entry - book->file->entries] : NULL;
}

struct rowen_book_entry *rowen_book_enter(struct rowen_book *book, int32_t pid, uint32_t kind) {
    uint64_t started = book->file ? start_of(pid) : 0;
    if (!started) return NULL;
    struct rowen_book_entry *entry = find(book, pid);
    if (!entry) {
        entry = find(book, 0);
        if (!entry) return NULL;
        atomic_store(&entry->bytes, 0);
        atomic_store(rowen_book_lent(book, entry), 0);
    }
    atomic_store(&entry->started, started);
    atomic_store(&entry->kind, kind);
    atomic_store(&entry->pid, pid);
    book->present[entry - book->file->entries] = true;
    count_absent(book);
    return entry;
}

void rowen_book_strike(struct rowen_book *book, struct rowen_book_entry *entry) {
    if (!entry) return;
    atomic_store(&entry->pid, 0);
    book->present[entry - book->file->entries] = false;
}

void rowen_book_forget(struct rowen_book *book, int32_t pid) {
    struct rowen_book_entry *entry = book->file && pid > 0 ? find(book, pid) : NULL;
    if (!entry) return;
    atomic_store(&entry->pid, 0);
    count_absent(book);
}

void rowen_book_look(struct rowen_book *book, uint64_t now_ns) {
    if (!book->file || (book->looked_ns && now_ns < book->looked_ns + LOOK_NS)) return;
    book->looked_ns = now_ns;
    for (uint32_t i = 0; i < ROWEN_BOOK_ENTRIES; i++) {
        struct rowen_book_entry *entry = &book->file->entries[i];
        int32_t pid = atomic_load(&entry->pid);
        if (pid && !book->present[i] && start_of(pid) != atomic_load(&entry->started)) atomic_store(&entry->pid, 0);
    }
    count_absent(book);
}
