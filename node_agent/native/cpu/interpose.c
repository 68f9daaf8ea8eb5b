/* Nobody but the library handles or blocks the parking signal, nor SIGTERM in a worker that it ends at once: these
 * functions replace glibc's in a tenant. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tenant/tenant.h"

typedef void (*handler)(int);

/* The next definition of a function, looked up once. */
#define NEXT(name)                                                                  \
    static __typeof__(&name) _Atomic cached;                                        \
    __typeof__(&name) next = atomic_load(&cached);                                  \
    if (!next) {                                                                    \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                          \
        atomic_store(&cached, next);                                                \
    }

static bool reserved(int number) {
    return (number == ROWEN_SIGNAL && atomic_load(&rowen_gated)) ||
           (number == SIGTERM && atomic_load(&rowen_ends_at_once));
}

/* The set without the library's signals; `storage` holds the copy. */
static const sigset_t *without(const sigset_t *set, sigset_t *storage) {
    if (!set) return set;
    *storage = *set;
    if (reserved(ROWEN_SIGNAL)) sigdelset(storage, ROWEN_SIGNAL);
    if (reserved(SIGTERM)) sigdelset(storage, SIGTERM);
    return storage;
}

int rowen_real_sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    NEXT(sigaction)
    return next(number, action, old);
}

ROWEN_API int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    if (!reserved(number)) return rowen_real_sigaction(number, action, old);
    if (old) *old = (struct sigaction){.sa_handler = SIG_DFL};
    return 0;
}

ROWEN_API handler signal(int number, handler action) {
    if (reserved(number)) return SIG_DFL;
    NEXT(signal)
    return next(number, action);
}

ROWEN_API int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    NEXT(pthread_sigmask)
    sigset_t copy;
    return next(how, how == SIG_UNBLOCK ? set : without(set, &copy), old);
}

ROWEN_API int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    NEXT(sigprocmask)
    sigset_t copy;
    return next(how, how == SIG_UNBLOCK ? set : without(set, &copy), old);
}

ROWEN_API int sigsuspend(const sigset_t *set) {
    NEXT(sigsuspend)
    sigset_t copy;
    return next(without(set, &copy));
}

ROWEN_API int sigwait(const sigset_t *set, int *number) {
    NEXT(sigwait)
    sigset_t copy;
    return next(without(set, &copy), number);
}

ROWEN_API int sigwaitinfo(const sigset_t *set, siginfo_t *info) {
    NEXT(sigwaitinfo)
    sigset_t copy;
    return next(without(set, &copy), info);
}

ROWEN_API int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout) {
    NEXT(sigtimedwait)
    sigset_t copy;
    return next(without(set, &copy), info, timeout);
}

ROWEN_API int signalfd(int fd, const sigset_t *set, int flags) {
    NEXT(signalfd)
    sigset_t copy;
    return next(fd, without(set, &copy), flags);
}

ROWEN_API int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *set) {
    NEXT(ppoll)
    sigset_t copy;
    return next(fds, count, timeout, without(set, &copy));
}

ROWEN_API int pselect(int count, fd_set *reads, fd_set *writes, fd_set *errors, const struct timespec *timeout,
                      const sigset_t *set) {
    NEXT(pselect)
    sigset_t copy;
    return next(count, reads, writes, errors, timeout, without(set, &copy));
}

ROWEN_API int epoll_pwait(int fd, struct epoll_event *events, int count, int timeout, const sigset_t *set) {
    NEXT(epoll_pwait)
    sigset_t copy;
    return next(fd, events, count, timeout, without(set, &copy));
}
