/* The agent's side of a device: who is on it, its gate, and what happened.
 *
 * One native thread per device does everything that has to be fast. The caller (Python) lets processes in, renews the
 * lease and reads. All functions return -errno on failure.
 */
#ifndef ROWEN_AGENT_H
#define ROWEN_AGENT_H

#include <pthread.h>

#include "agent/freezer.h"
#include "shared/page.h"

#define ROWEN_CLOSE_NS (5 * ROWEN_SECOND)
#define ROWEN_COOLDOWN_FLOOR_NS (2 * ROWEN_MS)
#define ROWEN_COOLDOWN_CEILING_NS (500 * ROWEN_MS)
#define ROWEN_MEMBERS 1024
#define ROWEN_RING 4096 /* requests, closes, decode gaps */
#define ROWEN_ENGINE (-1) /* in the place of a slot */

struct rowen_agent;
struct rowen_pool;

/* Why the gate was closed. */
enum rowen_reason {
    ROWEN_BUSY = 0,
    ROWEN_LEASE = 1,
    ROWEN_DETACHED = 2,
    ROWEN_MEMORY = 3,
    ROWEN_SHARED = 4 /* it was open at a share, whatever ended that */
};

/* Why the kernel had to stop a pod. */
enum rowen_offence {
    ROWEN_NO_OFFENCE = 0,
    ROWEN_UNACKNOWLEDGED = 1,
    ROWEN_REPLACED_HANDLER = 2,
    ROWEN_RAN = 3,
    /* Nobody's fault: unacknowledged without having run, since the machine was busy or another device had stopped the
     * pod already; or a system call runs on. */
    ROWEN_BLAMELESS = 4
};

/* A finished online request. */
struct rowen_request {
    _Atomic uint64_t number; /* 1-based; 0 while it is being written */
    _Atomic uint64_t begin_ns;
    _Atomic uint64_t end_ns;
    _Atomic uint64_t ttft_ns;
    _Atomic uint64_t tpot_ns; /* 0: fewer than two tokens */
    _Atomic uint32_t output_tokens;
    _Atomic uint32_t preemptions; /* closes between its begin and its end that stopped offline work */
    _Atomic uint32_t tenant_present;
    _Atomic uint32_t reserved;
};

struct rowen_transition {
    _Atomic uint64_t number; /* 1-based */
    _Atomic uint64_t closed_ns;
    _Atomic uint64_t ack_ns;    /* last acknowledgement; 0 while pending */
    _Atomic uint64_t opened_ns; /* 0 while closed */
    _Atomic uint32_t tenants;   /* processes that were stopped */
    _Atomic uint32_t reason;
    _Atomic uint32_t share; /* tenths that it was opened for; 0: all of the device */
    _Atomic uint32_t reserved;
};

/* What is kept of a slot's pod. */
struct rowen_account {
    _Atomic uint64_t open_ns; /* gate open with a process attached, by the share */
    _Atomic uint64_t preemptions;
    _Atomic uint64_t backstops;
    _Atomic uint64_t reports;
    _Atomic uint64_t completed;
    _Atomic uint64_t total;
    _Atomic uint64_t tokens;     /* since the first report of the process that reported last */
    _Atomic uint64_t granted_ns; /* between that report and the last */
    _Atomic uint32_t attached;   /* processes */
    _Atomic uint32_t offence;    /* of the last stop by the kernel */
    _Atomic int32_t offender;    /* process that it is known of; 0: none in particular */
    _Atomic uint32_t offences;   /* of the backstops, those that the pod is to blame for */
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
    uint64_t requests_made;
    uint64_t transitions_made;
    uint32_t gate;
    uint32_t online_attached;
    uint32_t in_flight;
    uint32_t tenants;
    struct rowen_account accounts[ROWEN_TENANT_SLOTS];
    /* Of the engines on the device, as they say it, since each of them began. */
    uint64_t steps;
    uint64_t step_ns;
    uint64_t decode_rows;
    uint64_t prefill_tokens;
    uint64_t shared_ns; /* open at a share with an engine attached; idle_ns counts it by the share */
    uint32_t share;     /* tenths that it is open for now; 0: all, or it is closed */
    uint32_t reserved;
};

/* Opens the device's state in `directory`, which outlives agents, or makes it anew; holds the device's lock. The gate
 * begins closed, in a file of its own. Returns NULL and sets *error; -EBUSY: another agent serves the device. */
ROWEN_API struct rowen_agent *rowen_agent_open(const char *directory, uint32_t slots, const uint64_t *cpus,
                                               uint64_t backstop_ns, int32_t *error);
/* Before the start: pods may use their CPUs while the gate is closed, as on a device that computes for itself. */
ROWEN_API void rowen_agent_allow_cpu(struct rowen_agent *agent);
/* The device's memory (memory/pool/pool.h); before it is started. It is the agent's from then on, and ends with it. */
ROWEN_API void rowen_agent_set_pool(struct rowen_agent *agent, struct rowen_pool *pool);
ROWEN_API int32_t rowen_agent_start(struct rowen_agent *agent);
/* When the thread last came round (CLOCK_MONOTONIC, nanoseconds); before its first round: when it was started. It
 * does so every 0.1 s at the latest, whatever happens on the device; one that has ended or is stuck does not. */
ROWEN_API uint64_t rowen_agent_beat(const struct rowen_agent *agent);
/* Stops the thread, and ends the device and its pool. -ETIMEDOUT: the thread did not come round within ROWEN_CLOSE_NS;
 * it keeps the device, its pool and its lock until the process ends. */
ROWEN_API int32_t rowen_agent_close(struct rowen_agent *agent);

ROWEN_API void rowen_agent_renew(struct rowen_agent *agent, uint64_t until_ns);

/* So many jobs are joined with the device's engine, as its requests are to tell. */
ROWEN_API void rowen_agent_set_riders(struct rowen_agent *agent, uint32_t riders);

/* The descriptor of the device's file, which stays the agent's. */
ROWEN_API int32_t rowen_agent_device_file(const struct rowen_agent *agent, uint32_t writable);
/* A new member's file; the caller closes it once the member has it. */
ROWEN_API int32_t rowen_agent_member_file(void);
/* Lets a process in; the descriptors stay the caller's. `slot`: of its pod, or ROWEN_ENGINE. A member of the same
 * process is replaced. Returns the member's number; -EUSERS: too many. */
ROWEN_API int32_t rowen_agent_admit(struct rowen_agent *agent, int32_t slot, int32_t pid, int32_t pidfd, int32_t file);
/* Its connection is gone, while the process is not: it may be about to execute another program. Nobody waits for its
 * acknowledgements until it attaches again. */
ROWEN_API void rowen_agent_loosen(struct rowen_agent *agent, uint32_t member);
/* The process has ended. */
ROWEN_API void rowen_agent_dismiss(struct rowen_agent *agent, uint32_t member);

/* Which pod has the slot; `pod` is the same on each of its devices. The cgroup's directories as rowen_cgroup_open()
 * takes them. */
ROWEN_API int32_t rowen_agent_set_pod(struct rowen_agent *agent, uint32_t slot, uint64_t pod, const char *directory,
                                      const char *cpuacct, const char *cpu);
/* Clears a slot for its next pod; -EBUSY while a process is attached to it. */
ROWEN_API int32_t rowen_agent_reset(struct rowen_agent *agent, uint32_t slot);

ROWEN_API void rowen_agent_status(struct rowen_agent *agent, struct rowen_status *status);
/* Entries numbered above `after`, oldest first; returns how many were written to `out`. */
ROWEN_API uint32_t rowen_agent_requests(struct rowen_agent *agent, uint64_t after, struct rowen_request *out,
                                        uint32_t capacity);
ROWEN_API uint32_t rowen_agent_transitions(struct rowen_agent *agent, uint64_t after, struct rowen_transition *out,
                                           uint32_t capacity);

#endif
