/* What outlives an agent: which processes own how much of a device's pool.
 *
 * A process hands its arena to the next agent some time after that has come, and later still where it is frozen. Until
 * then, or until it ends, what it owned is not free. All of it under the pool's lock.
 */
#ifndef ROWEN_BOOK_H
#define ROWEN_BOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ROWEN_BOOK_ENTRIES 512

struct rowen_book_entry {
    _Atomic uint64_t bytes;   /* owned */
    _Atomic uint64_t started; /* of the process, as /proc says it: its id may be used again */
    _Atomic int32_t pid;      /* 0: nobody's. Written last */
    _Atomic uint32_t kind;    /* enum rowen_member_kind; 0: an agent wrote it that knew none here */
};

struct rowen_book_file {
    uint64_t magic;
    uint64_t size;
    struct rowen_book_entry entries[ROWEN_BOOK_ENTRIES];
    /* Behind what `size` says, which an agent that knows nothing of it cuts off. Per entry 1 + the handles that grants
     * allow, without what is owned beyond them; 0: not said. */
    _Atomic uint32_t lent[ROWEN_BOOK_ENTRIES];
};

struct rowen_book {
    struct rowen_book_file *file; /* NULL: nothing is written down */
    bool present[ROWEN_BOOK_ENTRIES]; /* of a member; what else is there, is still to come */
    uint64_t absent_bytes;
    uint64_t absent_online_bytes; /* of these, engines' */
    uint64_t looked_ns;
};

/* Opens the file, or makes it anew where it is no such file. 0 or -errno. */
int32_t rowen_book_open(struct rowen_book *book, const char *path);
void rowen_book_close(struct rowen_book *book);
/* The entry of a member's process: the one that it had, or a new one. NULL: there is no book, or no place in it, or no
 * such process. */
struct rowen_book_entry *rowen_book_enter(struct rowen_book *book, int32_t pid, uint32_t kind);
/* Where an entry's `lent` is; NULL without an entry. */
_Atomic uint32_t *rowen_book_lent(struct rowen_book *book, const struct rowen_book_entry *entry);
void rowen_book_strike(struct rowen_book *book, struct rowen_book_entry *entry);
/* Of a process that is still to come: it runs another program now. */
void rowen_book_forget(struct rowen_book *book, int32_t pid);
/* Forgets those who have ended; looks at most every 0.1 s. */
void rowen_book_look(struct rowen_book *book, uint64_t now_ns);

#endif
