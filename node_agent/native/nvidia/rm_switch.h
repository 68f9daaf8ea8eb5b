/* Stopping and starting channels with FIFO_DISABLE_CHANNELS (0x2080110b): a control that needs no privilege, takes
 * channels off the hardware and returns when none of them runs. */
#ifndef ROWEN_RM_SWITCH_H
#define ROWEN_RM_SWITCH_H

#include "rowen_abi.h"
#include "nvidia/rm_table.h"

/* The C library's ioctl, or the next one that is preloaded. */
int rm_ioctl(int fd, unsigned long request, void *argument);

/* This process's channels, as they were seen. */
ROWEN_API uint32_t rowen_rm_channels(struct rm_channel *channels, uint32_t most);
/* Objects that found no room in the table; with any, stopping is not complete. */
ROWEN_API uint32_t rowen_rm_lost(void);

/* Stops (`disable` 1) or starts channels of one GPU, any number of them, by the client and subdevice given, on a
 * descriptor that this client was made on. `clients` and `channels` go together; NULL for `clients`: all are of
 * `client`. Returns the RM's status (0: done) or -errno; after an error the channels before it are switched. */
ROWEN_API int32_t rowen_rm_switch(int32_t fd, uint32_t client, uint32_t subdevice, const uint32_t *clients,
                                  const uint32_t *channels, uint32_t count, uint32_t disable);
/* Stops or starts every channel of this process. Returns as rowen_rm_switch() does; -ENODEV: there is none. */
ROWEN_API int32_t rowen_rm_switch_all(uint32_t disable);

/* Any other control, for measurements. Returns as rowen_rm_switch() does. */
ROWEN_API int32_t rowen_rm_control(int32_t fd, uint32_t client, uint32_t object, uint32_t command, void *params,
                                   uint32_t params_size);

/* A client of this process's own on a GPU. */
struct rm_own_client {
    int32_t control_fd, device_fd;
    uint32_t client, device, subdevice, device_instance;
};
/* Makes one. `minor` is N of /dev/nvidiaN. Returns as rowen_rm_switch() does. */
ROWEN_API int32_t rowen_rm_open(uint32_t minor, struct rm_own_client *own);
ROWEN_API void rowen_rm_close(const struct rm_own_client *own);

/* Called by the hook: with every allocation and every scheduling that has succeeded, and around every free. */
void rm_allocated(const struct rm_event *event);
void rm_scheduled(uint32_t client, uint32_t object);
void rm_freeing(uint32_t client, uint32_t handle);
void rm_freed(const struct rm_event *event, bool done);

#endif
