/* A record of the RM's ioctls, one line of JSON each, for `ROWEN_RM_TRACE=file`. */
#ifndef ROWEN_RM_TRACE_H
#define ROWEN_RM_TRACE_H

#include "nvidia/rm_table.h"

/* The time before the call; 0 while nothing is recorded. */
uint64_t rm_trace_begin(void);
void rm_trace(const struct rm_event *event, unsigned long request, int result, uint64_t begin_ns);

#endif
