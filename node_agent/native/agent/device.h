/* What the files of the agent's native side share. */
#ifndef ROWEN_DEVICE_H
#define ROWEN_DEVICE_H

#include "agent/agent.h"
#include "agent/allowance.h"

#define ROWEN_STATE_MAGIC 0x45544154534e5752ull

/* What a slot's pod might use of its CPUs before the agent lowered that. */
struct rowen_found_limit {
    int64_t quota_us, period_us, weight; /* weight 0: not known */
    uint64_t pod;
    _Atomic bool lowered; /* written after the others: the agent may be killed in between */
};

/* Only agents map it, one at a time: what a restarted one goes on with. */
struct rowen_state {
    uint64_t magic;
    uint64_t size;
    _Atomic uint64_t idle_ns;      /* gate open with an engine attached, by the share */
    _Atomic uint64_t harvested_ns; /* gate open with a tenant attached, by the share */
    _Atomic uint64_t preemptions;  /* closes for a request that stopped a tenant */
    _Atomic uint64_t backstops;
    _Atomic uint64_t transitions_made;
    _Atomic uint64_t requests_made;
    struct rowen_account accounts[ROWEN_TENANT_SLOTS];
    struct rowen_request requests[ROWEN_RING];
    struct rowen_transition transitions[ROWEN_RING];
    _Atomic uint64_t shared_ns; /* gate open at a share with an engine attached */
    struct rowen_found_limit limits[ROWEN_TENANT_SLOTS];
};

enum rowen_member_state { ROWEN_FREE = 0, ROWEN_ATTACHED, ROWEN_LOOSE };

/* The one thread of a process that goes before others, as the agent has raised it. */
struct rowen_control {
    pid_t tid;       /* in the agent's PID namespace; 0: none */
    bool first;      /* it goes first now */
    uint64_t cpu_ns; /* CPU time at the last look */
};

struct rowen_member {
    enum rowen_member_state state;
    int32_t slot;
    pid_t pid;
    int pidfd;
    struct rowen_member_page *page;
    bool raised; /* its control thread was looked for */
    struct rowen_control control;
    uint32_t stood_gate; /* closed gate word that it was seen to acknowledge last */
    bool ends;           /* at the last look no thread of it executed an instruction of its own any more */
    uint64_t gaps_read;
    uint64_t records_read;
    uint64_t reports_read;
};

struct rowen_slot {
    struct rowen_cgroup cgroup;
    bool known;    /* the cgroup is open */
    uint64_t pod;
    uint64_t adopted_ns;
    bool held;     /* asked to freeze, by this device */
    bool frozen;   /* and seen to be */
    uint64_t held_ns;
    struct rowen_allowance programs, calls;
    uint64_t spent_ns;    /* until when they are accounted for */
    uint64_t restless_ns; /* since when it has had a process that does not stand; 0: it has none */
    uint32_t raised;     /* processes with a thread that was raised */
    uint64_t control_ns; /* CPU time of those threads beyond the pod's share */
    bool lowered;        /* that was too much: none goes first for now */
};

struct rowen_agent {
    struct rowen_state *state;
    int state_fd;
    struct rowen_device_page *page;
    int page_fd, readers_fd;
    uint32_t slots;
    uint64_t backstop_ns;
    uint32_t cpus;           /* of the device, as the agent was told: engines can write what its page says */
    struct rowen_pool *pool; /* NULL: none */
    bool allows_cpu;
    _Atomic bool stop;
    _Atomic uint64_t beat_ns;
    bool started;
    pthread_t thread;
    struct rowen_agent *next; /* of the devices that this process serves */

    /* Held by the thread but while it waits, and by callers for some instructions. It hands priority on. */
    pthread_mutex_t lock;
    struct rowen_member members[ROWEN_MEMBERS];
    uint32_t members_end; /* none beyond */
    struct rowen_slot pods[ROWEN_TENANT_SLOTS];
    struct rowen_gap gaps[ROWEN_RING];
    uint64_t gaps_made;
    uint64_t gap_ns, gap_known_ns; /* the robust one, and when it was computed */
    _Atomic uint64_t cooldown_ns;
    _Atomic uint32_t engines, in_flight;

    uint64_t accounted_ns; /* open time is counted up to here */
    uint64_t scanned_ns;
    uint64_t ranked_ns; /* when the control threads' CPU time was last looked at */
    uint64_t quiet_from_ns; /* the device is not idle before: an engine came or died */
    uint64_t settled_ns;    /* by then the engines of the last agent have found this one */
    uint32_t followed_gate; /* closed gate word that the current transition is about */
    bool acknowledged;
    uint64_t acknowledged_ns;
    bool marked; /* the pods' CPU time was noted since, or when the last of them had to have acknowledged */
    uint32_t reason;
    uint32_t share; /* tenths that the gate was opened for; 0: for all, or its close was seen */
    uint64_t memory_ns; /* when the gate was last closed for memory alone */
};

#define ROWEN_FOR_MEMBERS(agent, member) \
    for (struct rowen_member *member = (agent)->members; member < (agent)->members + (agent)->members_end; member++) \
        if (member->state != ROWEN_FREE)

void *rowen_agent_loop(void *agent);

/* members.c */
void rowen_agent_forget(struct rowen_member *member);
/* Counts members, takes over what they report. */
void rowen_agent_scan(struct rowen_agent *agent, uint64_t now);
uint32_t rowen_agent_in_flight(struct rowen_agent *agent);
/* The latest moment at which an engine turned idle. */
uint64_t rowen_agent_idle_since(struct rowen_agent *agent);

/* report.c: what engines and tenants have written since the last look. */
void rowen_report_gaps(struct rowen_agent *agent, struct rowen_member *member);
void rowen_report_requests(struct rowen_agent *agent, struct rowen_member *member);
void rowen_report_progress(struct rowen_agent *agent, struct rowen_member *member);
/* The decode gap that the cooldown is made from, in nanoseconds. */
uint64_t rowen_agent_gap(struct rowen_agent *agent, uint64_t now);

/* collect.c: acknowledgements of a close; true when nobody is awaited any more. */
bool rowen_agent_collect(struct rowen_agent *agent, uint32_t gate, struct rowen_transition *transition);
/* Afterwards: holds the pods of processes that have come since and do not acknowledge, or that have taken their
 * acknowledgement back. True while somebody is awaited. */
bool rowen_agent_chase(struct rowen_agent *agent, uint32_t gate, uint64_t now);

/* backstop.c: what the kernel does where the library does not. */
void rowen_backstop_hold(struct rowen_agent *agent, uint32_t slot, enum rowen_offence offence, pid_t offender);
/* What a process has done that does not acknowledge: one that has not run either was kept from it by the machine. */
enum rowen_offence rowen_backstop_silence(struct rowen_agent *agent, uint32_t slot, uint64_t now);
/* A close, or its acknowledgement: what the pods have used of their CPUs until now was allowed. */
void rowen_backstop_note(struct rowen_agent *agent, uint64_t now);
/* Whether a slot that is held stands still, as far as can be had. */
bool rowen_backstop_done(struct rowen_agent *agent, uint32_t slot, uint64_t now);
/* Holds pods that use their CPU behind the closed gate. Returns when to look again, in nanoseconds from now. */
uint64_t rowen_backstop_watch(struct rowen_agent *agent, uint64_t now);
/* The same while a pod that is held is awaited, from when all others must have acknowledged. For every round. */
void rowen_backstop_glance(struct rowen_agent *agent, uint64_t closed_ns, uint64_t now);
void rowen_backstop_release(struct rowen_agent *agent);
/* The slot has this pod from now on. One that the last agent had asked to freeze is held, and let go when the gate is
 * open, whether or not everything in it has got there. */
void rowen_backstop_adopt(struct rowen_agent *agent, uint32_t slot, uint64_t pod, const struct rowen_cgroup *cgroup);
/* The slot has no pod any more; the one that it had is let go. */
void rowen_backstop_forget(struct rowen_agent *agent, uint32_t slot);
/* Whether a pod has a slot of another of these devices, too. */
bool rowen_backstop_elsewhere(const struct rowen_agent *agent, uint64_t pod);
/* The devices that this process serves know of each other: a pod may be on several of them. */
void rowen_backstop_enlist(struct rowen_agent *agent);
void rowen_backstop_dismiss(struct rowen_agent *agent);

/* share.c: tenths of the device that its engine can do without, with the requests that the gate word counts; 0: none. */
uint32_t rowen_share_said(struct rowen_agent *agent, uint64_t gate);
/* Has the kernel limit the pods to so many tenths, together. False: it cannot be done, and none of them is limited. */
bool rowen_share_limit(struct rowen_agent *agent, uint32_t tenths);
/* While the gate is open at a share: whether it is still the one that is said, and may be had. */
bool rowen_share_holds(struct rowen_agent *agent);
void rowen_share_lift(struct rowen_agent *agent);
/* Before a slot's pod is forgotten, or has another. A share that is open is divided anew. */
void rowen_share_forget(struct rowen_agent *agent, uint32_t slot);
/* The slot has its pod, which the last agent may have left limited. */
void rowen_share_adopt(struct rowen_agent *agent, uint32_t slot);

/* memory.c: whether every thread of offline work stands still, as far as is known. Only the device's thread opens the
 * gate: until it does so, those who stand do not go on. */
bool rowen_agent_stopped(struct rowen_agent *agent, uint64_t now);

/* raise.c: gives a process's control thread its priority, once. */
void rowen_agent_raise(struct rowen_agent *agent, struct rowen_member *member);
/* Does so for all, and takes it from those of pods whose control threads compute. */
void rowen_agent_rank(struct rowen_agent *agent, uint64_t now);

static inline struct rowen_transition *rowen_transition_at(struct rowen_state *state, uint64_t number) {
    return &state->transitions[(number - 1) % ROWEN_RING];
}

/* First number to read of a ring of `size` so that it is above `after` and still there. */
static inline uint64_t rowen_first_number(uint64_t after, uint64_t made, uint64_t size) {
    uint64_t oldest = made > size ? made - size + 1 : 1;
    return after + 1 > oldest ? after + 1 : oldest;
}

#endif
