/* How much more memory the kernel will charge this process with. */
#ifndef ROWEN_ROOM_H
#define ROWEN_ROOM_H

#include <stdint.h>

/* Bytes that this process's control groups have left, as far as it can see them, at most `wanted`. To go beyond a
 * group's limit is not refused by the kernel but punished: it kills a process of the group. */
uint64_t rowen_room(uint64_t wanted);

#endif
