/* The arena that a process has by its connection to an agent: asked for once, handed over to each agent that follows. */
#ifndef ROWEN_LOAN_H
#define ROWEN_LOAN_H

#include "memory/arena/arena.h"
#include "shared/link.h"

/* Asks for an arena and opens it. Any thread of the application's may call. NULL and *error, -errno: -ENODEV: the device
 * has no pool; -EEXIST: the process has its arena; -ENOTCONN: no agent; what the agent says otherwise. */
struct rowen_arena *rowen_loan_open(struct rowen_link *link, uint32_t capacity, int32_t *error);
/* Hands the arena, if there is one, to the agent that the link has just got. -errno: that agent is gone as well. One that
 * refuses it lets the process keep what it has, with a grant of 0. */
int32_t rowen_loan_hand_over(struct rowen_link *link);
/* A child after fork() has none. */
void rowen_loan_forget(struct rowen_link *link);

#endif
