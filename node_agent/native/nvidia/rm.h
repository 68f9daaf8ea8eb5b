/* The resource manager (RM) of NVIDIA's kernel driver as a process sees it: ioctls on /dev/nvidiactl.
 *
 * Layouts and numbers are those of NVIDIA/open-gpu-kernel-modules (MIT), branches 535 to 595, x86-64:
 * src/common/sdk/nvidia/inc/nvos.h, .../ctrl/ctrl2080/ctrl2080fifo.h, src/nvidia/arch/nvalloc/unix/include/nv_escape.h,
 * kernel-open/common/inc/nv-ioctl.h. The driver checks the size of every structure; other sizes are refused.
 */
#ifndef ROWEN_RM_H
#define ROWEN_RM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define RM_MAGIC 'F'
#define RM_ESCAPE_FREE 0x29u
#define RM_ESCAPE_CONTROL 0x2au
#define RM_ESCAPE_ALLOC 0x2bu
#define RM_ESCAPE_CARD_INFO 200u
#define RM_ESCAPE_REGISTER_FD 201u
#define RM_ESCAPE_TRANSFER 211u /* wraps any other */

#define RM_OK 0u
#define RM_SERIALIZED 1u /* flags of an allocation: its parameters are not a plain structure */

struct rm_free {
    uint32_t client, parent, object, status;
};

struct rm_control {
    uint32_t client, object, command, flags;
    uint64_t params;
    uint32_t params_size, status;
};

/* Allocation in its short form and in the one with rights. They agree up to `params`. */
struct rm_alloc {
    uint32_t client, parent, object, class;
    uint64_t params;
    uint32_t params_size, status;
};

struct rm_alloc_rights {
    uint32_t client, parent, object, class;
    uint64_t params, rights;
    uint32_t params_size, flags, status, reserved;
};

struct rm_transfer {
    uint32_t escape, size;
    uint64_t argument;
};

struct rm_card_info {
    uint8_t valid;
    uint8_t reserved0[15];
    uint32_t gpu_id;
    uint8_t reserved1[36];
    uint32_t minor;
    uint8_t reserved2[12];
};

_Static_assert(sizeof(struct rm_free) == 16, "NVOS00");
_Static_assert(sizeof(struct rm_control) == 32 && offsetof(struct rm_control, status) == 28, "NVOS54");
_Static_assert(sizeof(struct rm_alloc) == 32 && offsetof(struct rm_alloc, status) == 28, "NVOS21");
_Static_assert(sizeof(struct rm_alloc_rights) == 48 && offsetof(struct rm_alloc_rights, status) == 40, "NVOS64");
_Static_assert(offsetof(struct rm_alloc, params) == offsetof(struct rm_alloc_rights, params), "NVOS21 and NVOS64");
_Static_assert(sizeof(struct rm_transfer) == 16, "nv_ioctl_xfer_t");
_Static_assert(sizeof(struct rm_card_info) == 72 && offsetof(struct rm_card_info, gpu_id) == 16 &&
                   offsetof(struct rm_card_info, minor) == 56, "nv_ioctl_card_info_t");

#define RM_FREE _IOWR(RM_MAGIC, RM_ESCAPE_FREE, struct rm_free)
#define RM_CONTROL _IOWR(RM_MAGIC, RM_ESCAPE_CONTROL, struct rm_control)
#define RM_ALLOC _IOWR(RM_MAGIC, RM_ESCAPE_ALLOC, struct rm_alloc)
#define RM_ALLOC_RIGHTS _IOWR(RM_MAGIC, RM_ESCAPE_ALLOC, struct rm_alloc_rights)
#define RM_REGISTER_FD _IOWR(RM_MAGIC, RM_ESCAPE_REGISTER_FD, int32_t)
#define RM_TRANSFER _IOWR(RM_MAGIC, RM_ESCAPE_TRANSFER, struct rm_transfer)

#define RM_CLASS_ROOT 0x41u
#define RM_CLASS_DEVICE 0x80u
#define RM_CLASS_SUBDEVICE 0x2080u
#define RM_CLASS_CHANNEL_GROUP 0xa06cu

/* A channel of any architecture from Kepler (A06F) to Blackwell (CA6F), and what runs on one. */
static inline int rm_is_channel(uint32_t class) { return class <= 0xffff && class >= 0xa000 && (class & 0xff) == 0x6f; }
static inline int rm_is_compute(uint32_t class) { return class <= 0xffff && class >= 0xa000 && (class & 0xff) == 0xc0; }
static inline int rm_is_copy(uint32_t class) { return class <= 0xffff && class >= 0xa000 && (class & 0xff) == 0xb5; }

/* Parameters of allocations: where the engine type is. */
#define RM_GROUP_ENGINE_OFFSET 12u
#define RM_CHANNEL_ENGINE_OFFSET 128u

#define RM_ENGINE_GRAPHICS 1u
#define RM_ENGINE_COPY_FIRST 9u
#define RM_ENGINE_COPY_LAST 18u

struct rm_device_params {
    uint32_t device_id, client_share, target_client, target_device;
    uint32_t flags, reserved0;
    uint64_t va_space_size, va_start, va_limit;
    uint32_t va_mode, reserved1;
};
_Static_assert(sizeof(struct rm_device_params) == 56, "NV0080_ALLOC_PARAMETERS");

#define RM_CMD_SCHEDULE_GROUP 0xa06c0101u
#define RM_CMD_SCHEDULE_CHANNEL 0xa06f0103u

#define RM_CMD_GPU_ID_INFO 0x205u
struct rm_gpu_id_info {
    uint32_t gpu_id, flags, device_instance, subdevice_instance, sli_status, board_id, gpu_instance;
    int32_t numa_id;
};
_Static_assert(sizeof(struct rm_gpu_id_info) == 32, "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS");

#define RM_CMD_DISABLE_CHANNELS 0x2080110bu
#define RM_MOST_CHANNELS 64u
struct rm_disable_channels {
    uint8_t disable;
    uint8_t reserved0[3];
    uint32_t count;
    uint8_t only_scheduling; /* 1: what runs goes on */
    uint8_t rewind;          /* 1: drops pending work */
    uint8_t reserved1[6];
    uint64_t event; /* of the kernel alone */
    uint32_t clients[RM_MOST_CHANNELS];
    uint32_t channels[RM_MOST_CHANNELS];
};
_Static_assert(sizeof(struct rm_disable_channels) == 536 && offsetof(struct rm_disable_channels, clients) == 24 &&
                   offsetof(struct rm_disable_channels, channels) == 280, "NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS");

#endif
