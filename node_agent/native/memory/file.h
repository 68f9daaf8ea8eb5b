/* Files of memory without a name, as both sides use them. */
#ifndef ROWEN_MEMORY_FILE_H
#define ROWEN_MEMORY_FILE_H

#include <stdbool.h>
#include <stdint.h>

#define ROWEN_HUGE_BYTES (2u << 20)

/* Makes a file that can neither shrink nor grow nor be sealed further; returns its descriptor or -errno. `huge`: of the
 * kernel's reserved pages of ROWEN_HUGE_BYTES. */
int rowen_memory_make(const char *name, uint64_t bytes, bool huge);
/* Whether the file can neither shrink nor grow, so that access to any byte below *bytes, its length, cannot fault. */
bool rowen_memory_sealed(int fd, uint64_t *bytes);
/* Whether it is such a file that the caller may also write and punch, whoever has sealed it; *bytes is its length. */
bool rowen_memory_usable(int fd, uint64_t *bytes);
/* Bytes of a page of the file; 0: not a file of memory. */
uint64_t rowen_memory_page_bytes(int fd);
/* Makes a hole: the memory is free at once, whoever has it mapped, and reads as zeros afterwards. */
void rowen_memory_punch(int fd, uint64_t offset, uint64_t bytes);
/* Bytes that are no hole. */
uint64_t rowen_memory_held(int fd);

#endif
