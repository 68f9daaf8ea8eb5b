/* The threads of this process. Nothing here allocates or locks: others may stand still while they hold the heap. */
#ifndef ROWEN_THREADS_H
#define ROWEN_THREADS_H

#include <sched.h>
#include <stdint.h>
#include <sys/types.h>

/* A list of them, to be closed by the caller; -errno. */
int rowen_threads_open(void);
/* Calls `visit` for each that there is now. */
void rowen_threads_visit(int threads, void (*visit)(pid_t tid, void *context), void *context);
/* Puts each but `except` (0: none) on these CPUs. 0, or -errno of one that could not be put there. */
int32_t rowen_threads_pin(const cpu_set_t *cpus, pid_t except);

#endif
