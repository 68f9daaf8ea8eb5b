/* The offline side of the library, inside one process. */
#ifndef ROWEN_TENANT_H
#define ROWEN_TENANT_H

#include <signal.h>

#include "page.h"

/* Parks threads. SIGURG, as its default action is to be ignored: a signal that meets a process in the middle of
 * execve() finds the handler gone, and any real-time signal would then kill the new program. */
#define ROWEN_SIGNAL SIGURG

/* Whether this process is behind a gate; the interposed functions pass everything through while it is not. */
extern _Atomic bool rowen_gated;

struct rowen_parking {
    pid_t control_tid; /* the one thread that is never parked */
};

int rowen_real_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/* Installs the handler. Returns 0 or -errno. */
int rowen_park_install(void);
/* Before the control thread starts: drops what a forked child inherited. */
void rowen_park_reset(void);
/* Stops every thread but the control thread; polls `abandon` and returns false once that is true. Either way
 * rowen_unpark_all() comes next. */
bool rowen_park_all(const struct rowen_parking *parking, bool (*abandon)(void));
void rowen_unpark_all(void);

#endif
