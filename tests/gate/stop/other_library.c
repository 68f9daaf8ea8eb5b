/* A library that a tenant has preloaded beside Rowen's: it runs a thread of its own, and replaces functions that
 * Rowen's replaces too. Counts in the test's shared memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

static volatile uint64_t *counts;

int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    __typeof__(&sigaction) next = (__typeof__(&sigaction))dlsym(RTLD_NEXT, "sigaction");
    if (counts && number == SIGUSR1) counts[3]++;
    return next(number, action, old);
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    __typeof__(&pthread_sigmask) next = (__typeof__(&pthread_sigmask))dlsym(RTLD_NEXT, "pthread_sigmask");
    if (counts) counts[4]++;
    return next(how, set, old);
}

static void *spin(void *unused) {
    (void)unused;
    for (;;) counts[2]++;
}

__attribute__((constructor)) static void load(void) {
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(getenv("COUNTS"), O_RDWR), 0);
    pthread_t thread;
    pthread_create(&thread, NULL, spin, NULL);
}
