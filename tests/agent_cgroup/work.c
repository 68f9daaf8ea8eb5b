/* Work without the gate library: linked statically, as what the kernel alone can stop. Counts in a shared file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534

static _Atomic uint64_t *counts;

static void *spin(void *index) {
    for (;;) atomic_fetch_add(&counts[(intptr_t)index], 1);
    return NULL;
}

static int threads(int number) {
    pthread_t thread;
    for (intptr_t i = 1; i < number; i++)
        if (pthread_create(&thread, NULL, spin, (void *)i) != 0) return 1;
    spin(NULL);
    return 0;
}

/* Forks as fast as it can. Parents end when they have a child, one in `lives`: of 1 there is one process at a time. */
static int fork_on(int lives) {
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        atomic_fetch_add(&counts[0], 1);
        pid_t child = fork();
        if (child == 0) srandom((unsigned)getpid());
        if (child > 0 && random() % lives == 0) _exit(0);
    }
}

/* Holds the lock of a file, in a write from a page that is not there until a byte comes on the standard input. */
static char *absent;

static void *write_absent(void *path) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    return (void *)(intptr_t)(write(file, absent, 1) != 1);
}

static int hold(char *path) {
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    absent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)absent, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0 || ioctl(faults, UFFDIO_REGISTER, &range) != 0) return 2;
    pthread_t writer;
    struct uffd_msg message;
    char byte;
    if (pthread_create(&writer, NULL, write_absent, path) != 0) return 1;
    if (read(faults, &message, sizeof message) != sizeof message) return 1;
    puts("held");
    fflush(stdout);
    if (read(0, &byte, 1) < 0) return 1;
    struct uffdio_zeropage zero = {.range = {(uintptr_t)absent, 4096}};
    return ioctl(faults, UFFDIO_ZEROPAGE, &zero) != 0 || pthread_join(writer, NULL) != 0;
}

/* Waits for that lock, which no signal interrupts, then counts. */
static int await(const char *path) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    puts("waits");
    fflush(stdout);
    if (write(file, "x", 1) != 1) return 1;
    spin(NULL);
    return 0;
}

/* Becomes the program that counts, when the second counter says so. */
static void *replace(void *arguments) {
    char **argv = arguments;
    while (!atomic_load(&counts[1])) usleep(1000);
    execl(argv[0], argv[0], argv[1], "1", NULL);
    exit(1);
}

/* Waits for that lock, while another thread has the process become another program: execve() waits for this thread. */
static int replace_while_awaiting(char **argv) {
    pthread_t thread;
    return pthread_create(&thread, NULL, replace, argv) != 0 || await(argv[3]);
}

/* Has the kernel work, and does nothing itself. */
static int read_zeros(void) {
    static char zeros[16 << 20];
    int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    while (read(file, zeros, sizeof zeros) > 0) atomic_fetch_add(&counts[0], 1);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 3) return 1;
    int file = open(argv[1], O_RDWR | O_CLOEXEC);
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counts == MAP_FAILED) return 1;
    if (strcmp(argv[2], "bomb") == 0) return fork_on(4);
    if (strcmp(argv[2], "comet") == 0) return fork_on(1);
    if (strcmp(argv[2], "hold") == 0 && argc == 4) return hold(argv[3]);
    if (strcmp(argv[2], "await") == 0 && argc == 4) return await(argv[3]);
    if (strcmp(argv[2], "replace") == 0 && argc == 4) return replace_while_awaiting(argv);
    if (strcmp(argv[2], "zeros") == 0) return read_zeros();
    if (strcmp(argv[2], "nobody") == 0) return setuid(NOBODY) != 0 || threads(1);
    return threads(atoi(argv[2]));
}
