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
/* Whether SIGTERM ends this process at once; park.c sees to it. */
extern _Atomic bool rowen_ends_at_once;

int rowen_real_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/* How a process is stopped; one implementation is linked: park.c for `cpu`, nvidia/rm_switch.c for `nvidia`. */
struct rowen_stopper {
    pid_t control_tid; /* the one thread that is never stopped */
};

/* Before the first stop. Returns 0 or -errno. */
int rowen_stop_install(void);
/* Before the control thread starts: drops what a forked child inherited. */
void rowen_stop_reset(void);
/* Stops everything but the control thread; may poll `abandon` and return false once that is true. Either way
 * rowen_go_all() comes next. */
bool rowen_stop_all(const struct rowen_stopper *stopper, bool (*abandon)(void));
void rowen_go_all(void);

#endif
