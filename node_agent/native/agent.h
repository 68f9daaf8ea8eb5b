/* The agent's side of a device: it owns the pages, collects acknowledgements and reopens the gate.
 *
 * One native thread per device does everything that has to be fast. The caller (Python) creates and adopts pages,
 * renews the lease and reads. All functions return -errno on failure.
 */
#ifndef ROWEN_AGENT_H
#define ROWEN_AGENT_H

#include "page.h"

#define ROWEN_CLOSE_NS (5 * ROWEN_SECOND)

struct rowen_agent;

struct rowen_tenant_status {
    uint64_t open_ns;
    uint64_t preemptions;
    uint64_t backstops;
    uint64_t reports;
    uint64_t completed;
    uint64_t total;
    uint64_t tokens;     /* since the first report */
    uint64_t granted_ns; /* between the first report and the last */
    uint32_t attached;
    uint32_t stopped; /* processes under SIGSTOP by the agent */
};

struct rowen_status {
    uint64_t now_ns;
    uint64_t idle_ns;
    uint64_t harvested_ns;
    uint64_t preemptions;
    uint64_t backstops;
    uint64_t gap_ns;
    uint64_t cooldown_ns;
    uint64_t lease_until_ns;
    uint64_t records_made;
    uint64_t transitions_made;
    uint32_t gate;
    uint32_t online_attached;
    uint32_t in_flight;
    uint32_t tenants;
    struct rowen_tenant_status accounts[ROWEN_TENANT_SLOTS];
};

/* Opens the pages in `directory`, and makes those that are missing or of another version. Holds the device's agent
 * lock. Returns NULL and sets *error; -EBUSY: another agent serves the device. */
ROWEN_API struct rowen_agent *rowen_agent_open(const char *directory, uint32_t tenant_pages, const uint64_t *cpus,
                                               uint64_t backstop_ns, int32_t *error);
ROWEN_API int32_t rowen_agent_start(struct rowen_agent *agent);
/* When the thread last came round (CLOCK_MONOTONIC, nanoseconds); before its first round: when it was started. It
 * does so every 0.1 s at the latest, whatever happens on the device; one that has ended or is stuck does not. */
ROWEN_API uint64_t rowen_agent_beat(const struct rowen_agent *agent);
/* Stops the thread and lets go of the pages; what they hold stays for the next agent. A thread that does not come
 * round within ROWEN_CLOSE_NS keeps them, and the device's agent lock with them, until the process ends. */
ROWEN_API void rowen_agent_close(struct rowen_agent *agent);

ROWEN_API void rowen_agent_renew(struct rowen_agent *agent, uint64_t until_ns);
/* Clears a tenant page for its next owner; -EBUSY while a process is attached to it. */
ROWEN_API int32_t rowen_agent_reset(struct rowen_agent *agent, uint32_t tenant);

ROWEN_API void rowen_agent_status(struct rowen_agent *agent, struct rowen_status *status);
/* Entries numbered above `after`, oldest first; returns how many were written to `out`. */
ROWEN_API uint32_t rowen_agent_records(struct rowen_agent *agent, uint64_t after, struct rowen_record *out,
                                       uint32_t capacity);
ROWEN_API uint32_t rowen_agent_transitions(struct rowen_agent *agent, uint64_t after, struct rowen_transition *out,
                                           uint32_t capacity);

/* Within the library. */

struct rowen_control {
    pid_t pid; /* of its process, in the agent's PID namespace */
    int32_t tid; /* in the tenant's */
};

struct rowen_tenant_file {
    struct rowen_tenant_page *page;
    int fd;
    struct rowen_control raised[ROWEN_PROCESS_SLOTS]; /* control threads that were given their priority */
};

struct rowen_agent {
    struct rowen_device_page *page;
    int fd;
    struct rowen_tenant_file tenants[ROWEN_TENANT_SLOTS];
    uint32_t tenant_pages;
    uint64_t backstop_ns;
    _Atomic bool stop;
    _Atomic uint64_t beat_ns;
    bool started;
    unsigned long thread;
    struct rowen_agent *next; /* of the devices that this process serves */

    /* Of the thread. */
    uint64_t accounted_ns; /* open time is counted up to here */
    uint64_t scanned_ns;
    uint64_t quiet_from_ns; /* the device is not idle before: an engine came or died */
    uint32_t followed_gate; /* closed gate word that the current transition is about */
    bool acknowledged;
    uint32_t reason;
};

void *rowen_agent_loop(void *agent);

/* Looks for engines and tenants that came or went. */
void rowen_agent_scan(struct rowen_agent *agent, uint64_t now);
/* Collects acknowledgements of a close; true when nobody is awaited any more. Uses the backstop when it is due. */
bool rowen_agent_collect(struct rowen_agent *agent, uint32_t gate, struct rowen_transition *transition);
/* Gives the control thread of a slot's process its priority, if it is there and has none yet. `owner`: the process. */
void rowen_agent_raise(struct rowen_tenant_file *file, int index, pid_t owner);
/* The devices that this process serves know of each other: a tenant may be on several of them. */
void rowen_agent_enlist(struct rowen_agent *agent);
void rowen_agent_dismiss(struct rowen_agent *agent);
/* Lets go of processes that were stopped by the backstop; each runs again once no device holds it any more. */
void rowen_agent_continue(struct rowen_agent *agent);

#endif
