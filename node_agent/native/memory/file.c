#define _GNU_SOURCE
#include "memory/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int rowen_memory_make(const char *name, uint64_t bytes, bool huge) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0));
    if (fd < 0) return -errno;
    /* A seal against writing, which the process might set, would forbid punching. */
    if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) == 0) return fd;
    int error = -errno;
    close(fd);
    return error;
}

bool rowen_memory_sealed(int fd, uint64_t *bytes) {
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SIZE_SEALS) != SIZE_SEALS || fstat(fd, &info) != 0) return false;
    *bytes = (uint64_t)info.st_size;
    return true;
}

uint64_t rowen_memory_page_bytes(int fd) {
    struct statfs info;
    if (fstatfs(fd, &info) != 0) return 0;
    bool memory = info.f_type == HUGETLBFS_MAGIC || info.f_type == TMPFS_MAGIC;
    return memory ? (uint64_t)info.f_bsize : 0;
}

bool rowen_memory_usable(int fd, uint64_t *bytes) {
    const int wanted = SIZE_SEALS | F_SEAL_SEAL, unwanted = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
    /* First of all: of files that are not memory's, nothing else is asked, as their systems may not answer. */
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & (wanted | unwanted)) != wanted) return false;
    int mode = fcntl(fd, F_GETFL);
    return mode >= 0 && (mode & O_ACCMODE) == O_RDWR && rowen_memory_sealed(fd, bytes);
}

/* By system call: another library may have put a function that allocates or locks in front of the C library's. */
void rowen_memory_punch(int fd, uint64_t offset, uint64_t bytes) {
    syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

uint64_t rowen_memory_held(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 ? (uint64_t)info.st_blocks * 512 : 0;
}
