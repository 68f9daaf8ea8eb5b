/* The offline side of the library, inside one process. */
#ifndef ROWEN_TENANT_H
#define ROWEN_TENANT_H

#include <signal.h>

#include "shared/link.h"

/* Parks threads. SIGURG, as its default action is to be ignored: a signal that meets a process in the middle of
 * execve() finds the handler gone, and any real-time signal would then kill the new program. */
#define ROWEN_SIGNAL SIGURG

/* Whether this process is behind a gate; the interposed functions pass everything through while it is not. */
extern _Atomic bool rowen_gated;
/* Whether SIGTERM ends this process at once; cpu/park.c sees to it. */
extern _Atomic bool rowen_ends_at_once;

int rowen_real_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/* How a process is stopped; one implementation is linked: cpu/park.c or nvidia/rm_switch.c. */
struct rowen_stopper {
    pid_t control_tid; /* the one thread that is never stopped */
};

/* Before the first stop. Returns 0 or -errno. */
int rowen_stop_install(void);
/* Before the control thread starts: drops what a forked child inherited. */
void rowen_stop_reset(void);

enum rowen_stop { ROWEN_STOPPED, ROWEN_ABANDONED, ROWEN_UNSTOPPABLE };

/* Stops everything but the control thread; may poll `abandon` and give up once that is true. ROWEN_UNSTOPPABLE: the
 * process has taken away what stopping needs. rowen_go_all() comes next, whatever it returned. */
enum rowen_stop rowen_stop_all(const struct rowen_stopper *stopper, bool (*abandon)(void));
void rowen_go_all(void);

/* One device that this process is on. */
struct rowen_place {
    struct rowen_link link;
    bool lost; /* without an agent: counts as closed */
};

extern struct rowen_place rowen_places[ROWEN_TENANT_DEVICES];
extern uint32_t rowen_place_count; /* 0: not attached */

#define ROWEN_FOR_PLACES(place) \
    for (struct rowen_place *place = rowen_places; place < rowen_places + rowen_place_count; place++)

/* Puts every thread of this process but the control thread (0: there is none) on the CPUs of all its devices, where those
 * are others than before: what the application has put elsewhere since stays there. False: they are the same. What could
 * not be done is tried again the next time. */
bool rowen_stay_on_devices(pid_t control_tid);

/* The gate as it counts: a lease that has run out closes it too, and so does an agent that is gone. */
bool rowen_must_stop(const struct rowen_place *place, uint32_t gate);

/* Granted time, in which this process might run. */
void rowen_grant_reset(void);
void rowen_grant_begin(void);
void rowen_grant_end(void);
bool rowen_granted(void);

/* Starts the control thread, which follows the gates for ever, and waits until it has looked at them. */
int rowen_follow_start(void);

#endif
