/* Rowen's ABI between the node agent, online engines and offline tenants: two shared pages per device.
 *
 * device.page     one per device. Agent and online processes map it read-write, offline tenants read-only.
 * tenant-N.page   one per offline slot. Mapped read-write by the tenant; the agent trusts nothing it reads there.
 *
 * Times are CLOCK_MONOTONIC nanoseconds. Every shared field is a lock-free atomic. A change of layout or of
 * meaning raises ROWEN_ABI_VERSION; a side that finds another version does not attach.
 *
 * Gate word. `gate` packs two 32-bit counters. The low half is the futex word that tenants see: every close and
 * every open adds one, so bit 0 set = closed, and one close and open adds 2. The high half counts calls of
 * rowen_online_busy(). Opening is a compare-and-swap of both halves, with the value read before the agent looked
 * at the requests in flight: it fails when any request has arrived since, so an open never overrides a close.
 * Closes between two readings g0, g1 of the low half: ((g1 + 1) >> 1) - ((g0 + 1) >> 1).
 *
 * Lockstep. A tenant on several devices holds a slot in a tenant page of each. It runs while every one of their gates
 * is open and every lease valid; it acknowledges each close on the device that closed. Granted time and progress are
 * the process's own and the same in all of its pages: readers take one of them, never the sum.
 *
 * Process slots. A process owns slot i while it holds a POSIX record lock (F_WRLCK) on byte i of the page's file.
 * The kernel drops the lock when the process ends, however it ends.
 */
#ifndef ROWEN_ABI_H
#define ROWEN_ABI_H

#include <stdatomic.h>
#include <stdint.h>

#define ROWEN_ABI_VERSION 1u
#define ROWEN_DEVICE_MAGIC 0x454349564e574f52ull /* "ROWNVICE" */
#define ROWEN_TENANT_MAGIC 0x544e4e544e574f52ull /* "ROWNTNNT" */

#define ROWEN_ONLINE_SLOTS 64
#define ROWEN_TENANT_SLOTS 16  /* tenant pages per device */
#define ROWEN_PROCESS_SLOTS 64 /* processes per tenant page */
#define ROWEN_TENANT_DEVICES 16 /* devices that one process may run on in lockstep */
#define ROWEN_GAP_SECONDS 60
#define ROWEN_GAP_BUCKETS 64
#define ROWEN_RECORDS 4096
#define ROWEN_TRANSITIONS 4096
#define ROWEN_CPU_WORDS 16   /* 1024 CPUs */
#define ROWEN_AGENT_LOCK 4095 /* byte of device.page that the serving agent locks */

#define ROWEN_COOLDOWN_FLOOR_NS 2000000ull
#define ROWEN_BACKSTOP_NS 50000000ull

enum rowen_slot_state { ROWEN_FREE = 0, ROWEN_ATTACHING = 1, ROWEN_ATTACHED = 2 };

/* Why the gate was closed. */
enum rowen_reason { ROWEN_BUSY = 0, ROWEN_LEASE = 1, ROWEN_DETACHED = 2 };

struct rowen_online_slot {
    _Atomic uint32_t state;
    _Atomic uint32_t in_flight;
    _Atomic uint64_t step_end_ns;
};

struct rowen_record {
    _Atomic uint64_t number; /* 1-based; 0 while it is being written */
    _Atomic uint64_t end_ns;
    _Atomic uint64_t ttft_ns;
    _Atomic uint64_t tpot_ns; /* 0: fewer than two tokens */
    _Atomic uint32_t output_tokens;
    _Atomic uint32_t preemptions;
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
};

/* What the agent keeps of a tenant page's owner; here, so that a tenant cannot write it and a new agent finds it. */
struct rowen_tenant_account {
    _Atomic uint64_t open_ns; /* gate open with a process attached */
    _Atomic uint64_t preemptions;
    _Atomic uint64_t backstops;
    _Atomic uint64_t stopped; /* bit per process slot: under SIGSTOP by the agent */
    _Atomic uint32_t attached;
    _Atomic uint32_t reserved;
};

struct rowen_device_page {
    _Atomic uint64_t magic;
    _Atomic uint32_t version;
    _Atomic uint32_t size;
    uint64_t cpus[ROWEN_CPU_WORDS]; /* the device's CPUs, one bit each */

    _Alignas(64) _Atomic uint64_t gate;
    _Atomic uint64_t closed_at_ns;
    _Atomic uint64_t opened_at_ns;
    _Atomic uint64_t lease_until_ns; /* past: the gate counts as closed */

    _Alignas(64) _Atomic uint64_t idle_since_ns;
    _Atomic uint32_t idle_events; /* futex: the agent waits on it while the gate is closed */
    _Atomic uint32_t tenants;     /* offline processes attached */

    /* Kept by the agent. */
    _Alignas(64) _Atomic uint64_t idle_ns; /* gate open with an engine attached */
    _Atomic uint64_t harvested_ns;         /* gate open with a tenant attached */
    _Atomic uint64_t preemptions;          /* closes for a request that stopped a tenant */
    _Atomic uint64_t backstops;
    _Atomic uint64_t transitions_made;
    _Atomic uint64_t cooldown_ns;
    _Atomic uint32_t online_attached;
    _Atomic uint32_t in_flight;

    _Alignas(64) _Atomic uint64_t gap_buckets[ROWEN_GAP_BUCKETS]; /* second << 32 | largest gap in microseconds */
    struct rowen_tenant_account accounts[ROWEN_TENANT_SLOTS];
    struct rowen_online_slot online[ROWEN_ONLINE_SLOTS];

    _Alignas(64) _Atomic uint64_t records_made;
    struct rowen_record records[ROWEN_RECORDS];
    struct rowen_transition transitions[ROWEN_TRANSITIONS];
};

struct rowen_process_slot {
    _Atomic uint32_t state;
    _Atomic int32_t control_tid; /* in the tenant's PID namespace */
    _Atomic uint32_t ack;        /* gate word that every thread is parked for */
    _Atomic uint32_t version;    /* sequence lock of the next two */
    _Atomic uint64_t granted_ns;
    _Atomic uint64_t running_since_ns; /* 0 while stopped */
    _Atomic uint64_t ack_ns;
    _Atomic uint64_t parks; /* times that this process was stopped */
};

struct rowen_tenant_page {
    _Atomic uint64_t magic;
    _Atomic uint32_t version;
    _Atomic uint32_t size;
    _Alignas(64) _Atomic uint64_t reports; /* calls of rowen_tenant_progress() */
    _Atomic uint64_t completed;
    _Atomic uint64_t total;
    _Atomic uint64_t tokens;
    _Atomic uint64_t granted_ns; /* granted time of the reporting process at its last report */
    _Atomic uint64_t first_tokens;
    _Atomic uint64_t first_granted_ns;
    struct rowen_process_slot processes[ROWEN_PROCESS_SLOTS];
};

#define ROWEN_API __attribute__((visibility("default")))

/* Online side: never waits. Functions that can fail return -errno; before a successful attach the others do
 * nothing and return 0. */
ROWEN_API int32_t rowen_online_attach(const char *device_page);
ROWEN_API int32_t rowen_online_busy(void);
ROWEN_API void rowen_online_idle(void);
ROWEN_API void rowen_online_step(uint64_t begin_ns, uint64_t end_ns);
ROWEN_API uint32_t rowen_online_gate(void);
ROWEN_API void rowen_online_record(uint64_t ttft_ns, uint64_t tpot_ns, uint32_t output_tokens, uint32_t preemptions,
                                   uint32_t tenant_present);
ROWEN_API uint32_t rowen_online_tenants(void);
ROWEN_API int32_t rowen_online_pin(void);

/* Offline side. The library attaches by itself when it is loaded, to the pages that ROWEN_DEVICE_PAGE and
 * ROWEN_TENANT_PAGE list, separated by colons, in the same order.
 *
 * A process with ROWEN_JOB_SPEC in its environment is one of Rowen's own workers, which may be killed at any moment and
 * lose nothing. SIGTERM ends it at once with ROWEN_EXIT_RETRY, stopped or not; nothing in it changes that. */
#define ROWEN_EXIT_RETRY 1 /* another attempt goes on from what was committed */
ROWEN_API void rowen_tenant_progress(uint64_t completed, uint64_t total, uint64_t tokens);
ROWEN_API uint64_t rowen_tenant_granted_ns(void);

ROWEN_API uint32_t rowen_abi_version(void);

#endif
