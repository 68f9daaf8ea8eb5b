/* A FAKE of the driver's resource manager: it answers the RM's ioctls of a process without a GPU.
 *
 * Preloaded behind the library under test. Arguments come back as they were given, so that whoever calls writes the
 * answer into them before; only FIFO_DISABLE_CHANNELS gets a status of the fake's own, FAKE_RM_STATUS, and each such
 * call is noted in the file FAKE_RM_LOG. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nvidia/rm.h"

static void note(int fd, const struct rm_control *control, const struct rm_disable_channels *params) {
    char line[4096];
    int at = snprintf(line, sizeof line, "%s %d %#x %#x", params->disable ? "stop" : "go", fd, control->client,
                      control->object);
    for (uint32_t i = 0; i < params->count && i < RM_MOST_CHANNELS; i++)
        at += snprintf(line + at, sizeof line - (size_t)at, " %#x:%#x", params->clients[i], params->channels[i]);
    at += snprintf(line + at, sizeof line - (size_t)at, "\n");
    int log = open(getenv("FAKE_RM_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (write(log, line, (size_t)at) != at) abort();
    close(log);
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (_IOC_TYPE(request) != RM_MAGIC) return (int)syscall(SYS_ioctl, fd, request, argument);
    struct rm_control *control = argument;
    if (request == RM_CONTROL && control->command == RM_CMD_DISABLE_CHANNELS) {
        struct rm_disable_channels *params = (void *)(uintptr_t)control->params;
        const char *status = getenv("FAKE_RM_STATUS");
        if (control->params_size != sizeof *params) abort();
        note(fd, control, params);
        control->status = status ? (uint32_t)strtoul(status, NULL, 0) : RM_OK;
    }
    return 0;
}
