/* A client of this process's own on a GPU, as CUDA makes one: control device, GPU's file, device, subdevice. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nvidia/rm_switch.h"

#define MOST_CARDS 32u
#define HANDLE_DEVICE 0x52570001u
#define HANDLE_SUBDEVICE 0x52570002u

static int32_t allocate(int fd, struct rm_alloc *alloc) {
    if (rm_ioctl(fd, RM_ALLOC, alloc) != 0) return -errno;
    return (int32_t)alloc->status;
}

static int32_t find_card(int fd, uint32_t minor, uint32_t *gpu_id) {
    struct rm_card_info cards[MOST_CARDS];
    memset(cards, 0, sizeof cards);
    if (rm_ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, RM_MAGIC, RM_ESCAPE_CARD_INFO, sizeof cards), cards) != 0)
        return -errno;
    for (uint32_t i = 0; i < MOST_CARDS; i++)
        if (cards[i].valid && cards[i].minor == minor) {
            *gpu_id = cards[i].gpu_id;
            return 0;
        }
    return -ENODEV;
}

/* Opens the GPU's own file, which keeps the GPU awake for this client. */
static int32_t open_card(uint32_t minor, struct rm_own_client *own) {
    char path[32];
    snprintf(path, sizeof path, "/dev/nvidia%u", minor);
    own->device_fd = open(path, O_RDWR | O_CLOEXEC);
    if (own->device_fd < 0) return -errno;
    int32_t control = own->control_fd;
    return rm_ioctl(own->device_fd, RM_REGISTER_FD, &control) == 0 ? 0 : -errno;
}

static int32_t make_objects(uint32_t gpu_id, struct rm_own_client *own) {
    struct rm_gpu_id_info info = {.gpu_id = gpu_id};
    int32_t status = rowen_rm_control(own->control_fd, own->client, own->client, RM_CMD_GPU_ID_INFO, &info, sizeof info);
    if (status) return status;
    own->device_instance = info.device_instance;
    struct rm_device_params device = {.device_id = info.device_instance, .client_share = own->client};
    struct rm_alloc alloc = {own->client, own->client, HANDLE_DEVICE, RM_CLASS_DEVICE, (uint64_t)(uintptr_t)&device,
                             sizeof device, 0};
    status = allocate(own->control_fd, &alloc);
    if (status) return status;
    own->device = alloc.object;
    uint32_t subdevice = 0;
    alloc = (struct rm_alloc){own->client, own->device, HANDLE_SUBDEVICE, RM_CLASS_SUBDEVICE,
                              (uint64_t)(uintptr_t)&subdevice, sizeof subdevice, 0};
    status = allocate(own->control_fd, &alloc);
    own->subdevice = alloc.object;
    return status;
}

static int32_t open_all(uint32_t minor, struct rm_own_client *own) {
    own->control_fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
    if (own->control_fd < 0) return -errno;
    struct rm_alloc root = {.class = RM_CLASS_ROOT};
    int32_t status = allocate(own->control_fd, &root);
    if (status) return status;
    own->client = root.object;
    uint32_t gpu_id = 0;
    status = find_card(own->control_fd, minor, &gpu_id);
    if (!status) status = open_card(minor, own);
    return status ? status : make_objects(gpu_id, own);
}

int32_t rowen_rm_open(uint32_t minor, struct rm_own_client *own) {
    *own = (struct rm_own_client){.control_fd = -1, .device_fd = -1};
    int32_t status = open_all(minor, own);
    if (status) rowen_rm_close(own);
    return status;
}

/* The driver frees a client's objects with the descriptor that it was made on. */
void rowen_rm_close(const struct rm_own_client *own) {
    if (own->device_fd >= 0) close(own->device_fd);
    if (own->control_fd >= 0) close(own->control_fd);
}
