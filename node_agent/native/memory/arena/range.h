/* Addresses of an arena: every handle's part of them leads either to the handle's memory or to the quarantine page.
 *
 * Every function but open may run while each other thread of the process is parked anywhere: they allocate nothing and
 * take no lock. One that is parked inside the kernel may make them wait until it has left.
 */
#ifndef ROWEN_RANGE_H
#define ROWEN_RANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rowen_range_file {
    int fd;
    dev_t device;
    ino_t inode; /* the application may have closed the descriptor, and opened another in its place */
};

struct rowen_range {
    char *base;
    uint64_t handle_bytes;
    uint32_t handles;
    bool huge; /* memory of the kernel's reserved huge pages */
    struct rowen_range_file memory;
    struct rowen_range_file quarantine;
};

/* Reserves the addresses, all of which lead to the quarantine page. Takes a duplicate of the descriptor. 0 or -errno. */
int32_t rowen_range_open(struct rowen_range *range, int memory_fd, uint64_t handle_bytes, uint32_t handles);
void rowen_range_close(struct rowen_range *range);

/* Whether the descriptor still is the file, and not something that the application has opened since. */
bool rowen_range_is_ours(const struct rowen_range_file *file);
/* Notes which file the descriptor is, which it takes. 0 or -errno. */
int32_t rowen_range_hold(struct rowen_range_file *file, int fd);

/* 0 or -errno. */
int32_t rowen_range_map(const struct rowen_range *range, uint32_t handle);
int32_t rowen_range_quarantine(const struct rowen_range *range, uint32_t handle);
/* Gives memory to whatever the addresses lead to; to the handle itself where the kernel cannot do that (Linux < 5.14).
 * Returns 0 or -errno, -ENOMEM or -EFAULT where there is none; no signal is sent. */
int32_t rowen_range_populate(const struct rowen_range *range, uint32_t handle);
/* Gives the handle's memory back. */
void rowen_range_punch(const struct rowen_range *range, uint32_t handle);

#endif
