/* Rowen's ABI between the node agent, online engines and offline tenants.
 *
 * A process attaches through the agent's socket (SOCK_SEQPACKET): it sends `struct rowen_hello` and gets
 * `struct rowen_welcome` with two sealed files:
 *   device   one per device and life of the agent. Engines get it read-write, tenants read-only.
 *   member   one per process, read-write. The agent trusts nothing it reads there.
 * Once it is in it may send `struct rowen_request_message` on the same connection, any number of times, and gets a
 * welcome each time: ROWEN_ASK_MEMORY, answered with the two files of an arena (memory/memory_abi.h); ROWEN_HAND_OVER,
 * sent with the two files of the arena that it has. A third file is a tenant's ledger (memory/ledger/ledger_abi.h),
 * where both sides know of it: an agent gives one to a library that says so, and does without where none is handed over.
 * A process that has lost its agent connects again, gets new files and goes on with those; one that has an arena says so
 * in its hello, and hands it over before anything else.
 *
 * What never changes: the messages' and files' heads, `struct rowen_gate_block`, `struct rowen_member_block` and what
 * their fields mean. With them any release's agent, engine and tenant stop and go on together. Everything behind them
 * grows at its end alone. Who maps a file that ends earlier than its own structure has zeros of its own there
 * (rowen_map()); what one side does not know stays zero in the other's eyes, so zero has to mean "not said".
 * Where that is not enough, the feature bits of both messages tell.
 *
 * Times are CLOCK_MONOTONIC nanoseconds. Every shared field is a lock-free atomic.
 *
 * Gate word. `gate` packs two 32-bit counters. The low half is the futex word that tenants see: every close and
 * every open adds one, so bit 0 set = closed. The high half counts calls of rowen_online_busy(). Opening is a
 * compare-and-swap of both halves, with the value read before the agent looked at the requests in flight: it fails
 * when any request has arrived since, so an open never overrides a close.
 *
 * Share. With requests in flight the gate may be open, too, once the engine has said what part of the device it can do
 * without: then the kernel gives offline work that, and no more. What it has said holds for the count of busy calls that
 * it was said at; the next request closes the gate like any other, and another share is another opening. So a share
 * belongs to an opening, and what is granted meanwhile counts by it.
 *
 * An engine on several devices is a member of each, and tells each of them the same: all of its requests, and every gap.
 * One request closes all of their gates. Whoever counts requests takes one device's.
 *
 * Lockstep. A tenant on several devices is a member of each. It runs while every one of their gates is open and every
 * lease valid; it acknowledges each close on the device that closed. Granted time and progress are the process's own
 * and the same in all of its files: readers take one of them, never the sum.
 */
#ifndef ROWEN_ABI_H
#define ROWEN_ABI_H

#include <stdatomic.h>
#include <stdint.h>

/* Of the parts that never change: another number means that the two sides have nothing in common. */
#define ROWEN_ABI 2u
#define ROWEN_DEVICE_MAGIC 0x454349564e574f52ull /* "ROWNVICE" */
#define ROWEN_MEMBER_MAGIC 0x4d454d424e574f52ull /* "ROWNBMEM" */
#define ROWEN_HELLO_MAGIC 0x4c4c45484e574f52ull  /* "ROWNHELL" */

#define ROWEN_REQUEST_MAGIC 0x5453455152574f52ull /* "ROWRQEST" */

#define ROWEN_TENANT_SLOTS 16   /* offline pods per device */
#define ROWEN_TENANT_DEVICES 16 /* devices that one process may run on in lockstep */
#define ROWEN_ENGINE_DEVICES 16 /* devices that one engine may be on */
#define ROWEN_GAPS 1024
#define ROWEN_RECORDS 512
#define ROWEN_CPU_WORDS 16 /* 1024 CPUs */
#define ROWEN_REASON_LENGTH 104
#define ROWEN_WHOLE 10u /* tenths of a device */

/* Messages. */

struct rowen_hello {
    uint64_t magic;
    uint32_t abi;
    uint32_t size; /* of this message */
    uint64_t features;
};

/* Bits of a hello. */
#define ROWEN_HOLDS_MEMORY 1u /* the process has an arena */

enum rowen_request_kind { ROWEN_ASK_MEMORY = 1, ROWEN_HAND_OVER = 2 };

/* Bits of a request. */
#define ROWEN_KEEPS_LEDGER 1u /* the library has a place for the third file */

struct rowen_request_message {
    uint64_t magic;
    uint32_t abi;
    uint32_t size; /* of this message */
    uint64_t features;
    uint32_t kind;
    uint32_t capacity; /* handles; 0: as many as the pool has */
};

struct rowen_welcome {
    uint64_t magic;
    uint32_t abi;
    uint32_t size;
    uint64_t features;
    int32_t error; /* 0, or -errno: then there are no files */
    char reason[ROWEN_REASON_LENGTH]; /* for people; ends with a zero */
};

/* Files. */

struct rowen_file_head {
    _Atomic uint64_t magic;
    _Atomic uint32_t abi;
    _Atomic uint32_t size; /* of the maker's structure */
};

struct rowen_gate_block {
    _Alignas(64) _Atomic uint64_t gate;
    _Atomic uint64_t closed_at_ns;
    _Atomic uint64_t opened_at_ns;
    _Atomic uint64_t lease_until_ns; /* past: the gate counts as closed, and what rides in engines stands still */
    _Atomic uint32_t events;         /* futex: engines add one when they come, and when they have turned idle */
};

struct rowen_device_page {
    struct rowen_file_head head;
    struct rowen_gate_block block;
    /* The part that grows. */
    _Alignas(64) _Atomic uint64_t cpus[ROWEN_CPU_WORDS]; /* the device's CPUs, one bit each */
    _Atomic uint32_t tenants;                            /* offline processes attached */
    _Atomic uint32_t riders;                             /* jobs that are joined with its engine */
    _Atomic uint32_t share; /* tenths of the device that the current, or the last, opening is for; 0: all of it */
};

/* Why a tenant does not acknowledge. */
enum rowen_fault { ROWEN_NO_FAULT = 0, ROWEN_HANDLER_REPLACED = 1 };

struct rowen_member_block {
    /* Tenant. */
    _Alignas(64) _Atomic uint32_t ack; /* low half of the gate word that every thread is stopped for */
    _Atomic int32_t control_tid;       /* in the tenant's PID namespace; not 0: follows the gate */
    _Atomic uint64_t ack_ns;
    _Atomic uint32_t fault;
    /* Engine. */
    _Alignas(64) _Atomic uint32_t in_flight;
    _Atomic uint64_t idle_since_ns;
};

/* The time between two engine steps with requests in flight throughout. */
struct rowen_gap {
    _Atomic uint64_t at_ns;
    _Atomic uint64_t gap_ns;
};

/* A finished request. */
struct rowen_record {
    _Atomic uint64_t number; /* 1-based; 0 while it is being written */
    _Atomic uint64_t begin_ns;
    _Atomic uint64_t end_ns;
    _Atomic uint64_t ttft_ns;
    _Atomic uint64_t tpot_ns; /* 0: fewer than two tokens */
    _Atomic uint32_t output_tokens;
    _Atomic uint32_t tenant_present;
};

struct rowen_progress {
    _Atomic uint64_t reports; /* calls of rowen_tenant_progress() */
    _Atomic uint64_t completed;
    _Atomic uint64_t total;
    _Atomic uint64_t tokens;
    _Atomic uint64_t granted_ns; /* granted time at the last report */
    _Atomic uint64_t first_tokens;
    _Atomic uint64_t first_granted_ns;
};

/* What an engine's steps were made of since it began: counters only grow. `steps` 0: not said. */
struct rowen_composition {
    _Atomic uint64_t steps;
    _Atomic uint64_t step_ns;        /* in steps */
    _Atomic uint64_t decode_rows;    /* requests that got their next token */
    _Atomic uint64_t prefill_tokens; /* tokens of prompts */
};

struct rowen_member_page {
    struct rowen_file_head head;
    struct rowen_member_block block;
    /* The part that grows. */
    _Alignas(64) _Atomic uint64_t parks; /* times that this process was stopped */
    struct rowen_progress progress;
    _Alignas(64) _Atomic uint64_t gaps_made;
    struct rowen_gap gaps[ROWEN_GAPS];
    _Atomic uint64_t records_made;
    struct rowen_record records[ROWEN_RECORDS];
    _Atomic uint32_t failed; /* the engine cannot tell when it is busy: its device is not harvested */
    struct rowen_composition composition;
    /* An engine's. High half: the gate word's, when it was said. Low half: 1 + tenths of the device that offline work may
     * have beside the requests; 0: not said. */
    _Atomic uint64_t share;
};

#define ROWEN_API __attribute__((visibility("default")))

/* Online side: waits for nobody outside the process. */

/* Attaches through the devices' sockets, separated by colons. Once it has been called the library keeps trying for as
 * long as the process lives, and attaches again to each new agent. Returns 0, or why it is not on all of them yet:
 * -errno. The other functions do nothing for a device until then. */
ROWEN_API int32_t rowen_online_attach(const char *socket_paths);
ROWEN_API int32_t rowen_online_busy(void);
ROWEN_API void rowen_online_idle(void);
ROWEN_API void rowen_online_step(uint64_t begin_ns, uint64_t end_ns);
/* A step took so long, and was made of that. */
ROWEN_API void rowen_online_composition(uint64_t step_ns, uint32_t decode_rows, uint32_t prefill_tokens);
/* Offline work may have so many tenths of the device beside the requests that are in flight now, 9 at most; 0: none. */
ROWEN_API void rowen_online_share(uint32_t tenths);
/* Tenths that offline work may use now: 10 while the gate is open for all of the device, 0 while it is closed. */
ROWEN_API uint32_t rowen_online_granted(void);
/* 1 while the lease of each of the devices runs, 0 from when one has run out, and where one has no agent yet. */
ROWEN_API uint32_t rowen_online_leased(void);
ROWEN_API void rowen_online_record(uint64_t begin_ns, uint64_t ttft_ns, uint64_t tpot_ns, uint32_t output_tokens,
                                   uint32_t tenant_present);
/* Offline processes on the devices now, and jobs that ride in the engine; one on several counts with each. */
ROWEN_API uint32_t rowen_online_tenants(void);
/* What this process tells of its requests cannot be relied on from now on, for as long as it lives. */
ROWEN_API void rowen_online_fail(void);
/* Puts every thread on the CPUs of all its devices, from when each of them has been attached to. 0 or -errno. */
ROWEN_API int32_t rowen_online_pin(void);

/* An arena of the device's memory, once per process (memory/arena/arena.h says what can be done with it); 0: with as
 * many handles as the pool has. NULL and *error, -errno: -ENOTCONN: no agent yet; -ENODEV: the device has no pool;
 * -EEXIST: the process has its arena already; -EOPNOTSUPP: the engine is on several devices. The library hands it to each
 * new agent. Children after fork() have no part in it, and may open their own. Waits for the agent, 10 s at most. */
struct rowen_arena;
ROWEN_API struct rowen_arena *rowen_online_memory(uint32_t capacity, int32_t *error);

/* Offline side. The library attaches by itself when it is loaded, through the sockets that ROWEN_TENANT_SOCKETS lists,
 * separated by colons.
 *
 * A process with ROWEN_JOB_SPEC in its environment is one of Rowen's own workers, which may be killed at any moment and
 * lose nothing. SIGTERM ends it at once with ROWEN_EXIT_RETRY, stopped or not; nothing in it changes that. */
#define ROWEN_EXIT_RETRY 1 /* another attempt goes on from what was committed */
ROWEN_API void rowen_tenant_progress(uint64_t completed, uint64_t total, uint64_t tokens);
ROWEN_API uint64_t rowen_tenant_granted_ns(void);
/* As rowen_online_memory(), of one of the process's devices, numbered as ROWEN_TENANT_SOCKETS lists them. -ENXIO: there
 * is no such device. */
ROWEN_API struct rowen_arena *rowen_tenant_memory(uint32_t device, uint32_t capacity, int32_t *error);

ROWEN_API uint32_t rowen_abi_version(void);

#endif
