/* Records ioctls as they were after the call. A line is written with one write() to a file opened for appending, so
 * that lines of several threads and processes do not mix. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/page.h"
#include "nvidia/rm_trace.h"

#define MOST_PARAMS 1024u /* bytes of parameters that are kept */

static int trace_fd = -1;

static void open_trace(void) {
    const char *path = getenv("ROWEN_RM_TRACE");
    if (path) trace_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static int descriptor(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_trace);
    return trace_fd;
}

uint64_t rm_trace_begin(void) { return descriptor() < 0 ? 0 : rowen_now(); }

static size_t hex(char *to, const void *from, size_t size) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = from;
    for (size_t i = 0; i < size; i++) {
        to[2 * i] = digits[bytes[i] >> 4];
        to[2 * i + 1] = digits[bytes[i] & 15];
    }
    return 2 * size;
}

/* How many bytes of parameters can be read: as many as the call says. Allocations may leave it at 0, by class. */
static size_t params_size(const struct rm_event *event) {
    if (!event->params) return 0;
    uint32_t size = 0;
    if (event->escape == RM_ESCAPE_CONTROL) size = ((const struct rm_control *)event->argument)->params_size;
    else if (event->size == sizeof(struct rm_alloc)) size = ((const struct rm_alloc *)event->argument)->params_size;
    else size = ((const struct rm_alloc_rights *)event->argument)->params_size;
    if (size == 0 && event->escape == RM_ESCAPE_ALLOC) {
        uint32_t class = ((const struct rm_alloc *)event->argument)->class;
        if (class == RM_CLASS_CHANNEL_GROUP) size = RM_GROUP_ENGINE_OFFSET + 8;
        else if (rm_is_channel(class)) size = RM_CHANNEL_ENGINE_OFFSET + 4;
        else if (class == RM_CLASS_DEVICE) size = sizeof(struct rm_device_params);
        else if (class == RM_CLASS_SUBDEVICE) size = sizeof(uint32_t);
    }
    return size < MOST_PARAMS ? size : MOST_PARAMS;
}

void rm_trace(const struct rm_event *event, unsigned long request, int result, uint64_t begin_ns) {
    if (begin_ns == 0) return;
    uint64_t end = rowen_now();
    char line[512 + 2 * (256 + MOST_PARAMS)];
    size_t argument = event->size < 256 ? event->size : 256;
    int length = snprintf(line, 512,
                          "{\"ns\":%llu,\"took_ns\":%llu,\"pid\":%d,\"tid\":%ld,\"fd\":%d,\"request\":\"%#lx\","
                          "\"escape\":%u,\"size\":%zu,\"result\":%d,\"argument\":\"",
                          (unsigned long long)begin_ns, (unsigned long long)(end - begin_ns), (int)getpid(),
                          syscall(SYS_gettid), event->fd, request, event->escape, event->size, result);
    size_t at = (size_t)length;
    at += hex(line + at, event->argument, argument);
    at += (size_t)snprintf(line + at, 32, "\",\"params\":\"");
    at += hex(line + at, event->params, params_size(event));
    at += (size_t)snprintf(line + at, 8, "\"}\n");
    ssize_t written = write(descriptor(), line, at);
    (void)written;
}
