/* A pod's cgroup, as the kernel stops it: nothing in it has to cooperate.
 *
 * The directory given is the pod's own. What is done to it holds for every cgroup below it, one per container, those
 * that are made later too.
 *
 * Freezing is a request. From the moment that it returns, a thread that gets a CPU goes back to the kernel and not to
 * its program, and those on a CPU have been interrupted; a thread in a system call finishes or leaves it first. The
 * tree is frozen when the last thread has got there, which takes longer the more threads wait for a CPU. A thread in an
 * uninterruptible sleep (a disk, a driver) keeps the tree from being frozen until it wakes, and executes nothing of its
 * program meanwhile. What is forked or moved into the tree freezes with it.
 *
 * Version 1 (freezer.state). FREEZING becomes FROZEN when somebody reads the state and finds every thread frozen. A
 * cgroup is frozen by itself (the request here) or by one above it; thawing takes back the request only, so a container
 * that somebody else has paused stays paused, and a tree below a frozen cgroup stays frozen. Processes that keep being
 * forked or moved in can leave old kernels at FREEZING for ever: ask again when it lasts. A frozen thread takes no
 * signal, SIGKILL neither, before it is thawed.
 *
 * Version 2 (cgroup.freeze, cgroup.events). The same by itself and from above. A frozen thread takes SIGKILL at once,
 * and no other signal.
 *
 * A frozen process holds its locks, answers nobody (probes, `kubectl exec`) and is not ended by the kubelet's SIGTERM;
 * on version 1 not by its SIGKILL. So a pod that is to go is thawed or killed.
 *
 * Everything works on descriptors that are opened once, waits for nothing but locks within the kernel, and needs no
 * capability where the files are the caller's; only signalling other users' processes needs CAP_KILL. With version 2
 * one of those locks is the one under which any cgroup is made or removed: while others come and go all the time a
 * request may take tens of milliseconds. All functions return -errno on failure; -ENOENT and -ENODEV: the cgroup is
 * gone, and so is everything that was in it.
 */
#ifndef ROWEN_FREEZER_H
#define ROWEN_FREEZER_H

#include "rowen_abi.h"

struct rowen_cgroup {
    int32_t directory;
    int32_t request; /* freezer.state or cgroup.freeze */
    int32_t state;   /* freezer.state or cgroup.events */
    int32_t usage;   /* cpuacct.usage_user or cpu.stat */
    int32_t system;  /* cpuacct.usage_sys; -1 with version 2 */
    int32_t kill;    /* cgroup.kill; -1 before Linux 5.14 and with version 1 */
    uint32_t version;
    int32_t quota;  /* cpu.cfs_quota_us or cpu.max; -1: the tree's CPU time cannot be limited */
    int32_t period; /* cpu.cfs_period_us; -1 with version 2 */
    int32_t weight; /* cpu.shares or cpu.weight; -1: it has none */
};

/* Version 1: the cgroup's directory of the freezer, and the one of cpuacct; and that of cpu, or NULL. Version 2: its
 * directory, and NULL. -EINVAL: they are no such directories. -ENOENT also for a hierarchy's root, which cannot be
 * frozen. */
ROWEN_API int32_t rowen_cgroup_open(struct rowen_cgroup *cgroup, const char *directory, const char *cpuacct,
                                    const char *cpu);
ROWEN_API void rowen_cgroup_close(struct rowen_cgroup *cgroup);

/* Asks for it, and returns; may be asked again. */
ROWEN_API int32_t rowen_cgroup_freeze(const struct rowen_cgroup *cgroup);
/* 1: everything in the tree is frozen (also: nothing is in it, and it was asked for); 0: not, or not yet. */
ROWEN_API int32_t rowen_cgroup_frozen(const struct rowen_cgroup *cgroup);
/* 1: this cgroup was asked to freeze, and not only one above it, whether or not everything in it has got there. */
ROWEN_API int32_t rowen_cgroup_requested(const struct rowen_cgroup *cgroup);
ROWEN_API int32_t rowen_cgroup_thaw(const struct rowen_cgroup *cgroup);
/* Version 1: moves a process to the cgroup above, where it is not frozen by this one. Of use for one that has to die:
 * it takes its signal there, and executes nothing before. */
ROWEN_API int32_t rowen_cgroup_put_out(const struct rowen_cgroup *cgroup, int32_t pid);

/* Kills every process in the tree, frozen or not, and thaws it (with version 1 also what is frozen by itself below).
 * Returns how many processes it found. They end when they get a CPU, and execute nothing of their programs before.
 * Without cgroup.kill, one that was forked or moved in meanwhile may have got away: call it until it returns 0. */
ROWEN_API int32_t rowen_cgroup_kill(const struct rowen_cgroup *cgroup);

/* CPU time that the tree has used since it was made, what has left it included. Accounted for at the kernel's ticks. It
 * stands still while the tree is frozen. */
struct rowen_usage {
    uint64_t programs_ns; /* by programs themselves */
    uint64_t calls_ns;    /* by the kernel for them: a system call that was begun before a stop is finished after it */
};

ROWEN_API int32_t rowen_cgroup_usage(const struct rowen_cgroup *cgroup, struct rowen_usage *usage);

/* CPU time that the tree may use in each period; what is below it has less where it is limited itself. */
struct rowen_limit {
    int64_t quota_us; /* -1: any */
    int64_t period_us;
};

/* -ENOTSUP: it cannot be limited. */
ROWEN_API int32_t rowen_cgroup_limit(const struct rowen_cgroup *cgroup, struct rowen_limit *limit);
/* How the tree goes before others that want the same CPUs. -ENOTSUP: it has no weight. */
ROWEN_API int32_t rowen_cgroup_weight(const struct rowen_cgroup *cgroup, int64_t *weight);
/* 0: the greatest. */
ROWEN_API int32_t rowen_cgroup_set_weight(const struct rowen_cgroup *cgroup, int64_t weight);
/* -EINVAL also where something below has a higher limit of its own (version 1). */
ROWEN_API int32_t rowen_cgroup_set_limit(const struct rowen_cgroup *cgroup, const struct rowen_limit *limit);

/* Writes ids of processes in the tree, as many as fit, and returns how many there are. The ids are those of the
 * caller's PID namespace, which has to be the host's: a process that it does not show is missing (version 1) or 0.
 * -ELOOP: cgroups are nested deeper than ROWEN_CGROUP_DEPTH; what is above that was listed (and, in
 * rowen_cgroup_kill(), killed). */
#define ROWEN_CGROUP_DEPTH 16
ROWEN_API int32_t rowen_cgroup_processes(const struct rowen_cgroup *cgroup, int32_t *pids, uint32_t capacity);

#endif
