/* The C library's ioctl(), seen on its way: which RM objects this process makes and frees.
 *
 * CUDA calls it through the dynamic linker, so that preloading this library is enough. Anything that is not one of
 * the RM's escapes goes through untouched, and nothing that the caller passes or gets is ever changed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>

#include "nvidia/rm_switch.h"
#include "nvidia/rm_trace.h"

typedef int (*ioctl_function)(int, unsigned long, ...);

int rm_ioctl(int fd, unsigned long request, void *argument) {
    static ioctl_function _Atomic cached;
    ioctl_function next = atomic_load(&cached);
    if (!next) {
        next = (ioctl_function)dlsym(RTLD_NEXT, "ioctl");
        atomic_store(&cached, next);
    }
    return next(fd, request, argument);
}

/* The escape itself, out of its wrapping where it has one. */
static void unwrap(unsigned long request, void *argument, struct rm_event *event) {
    event->escape = _IOC_NR(request);
    event->argument = argument;
    event->size = _IOC_SIZE(request);
    if (request != RM_TRANSFER) return;
    const struct rm_transfer *transfer = argument;
    event->escape = transfer->escape;
    event->argument = (const void *)(uintptr_t)transfer->argument;
    event->size = transfer->size;
}

/* Parameters of an allocation or a control, which are at the same place in each of their forms. */
static void find_params(struct rm_event *event) {
    bool control = event->escape == RM_ESCAPE_CONTROL && event->size == sizeof(struct rm_control);
    bool alloc = event->escape == RM_ESCAPE_ALLOC &&
                 (event->size == sizeof(struct rm_alloc) || event->size == sizeof(struct rm_alloc_rights));
    _Static_assert(offsetof(struct rm_alloc, params) == offsetof(struct rm_control, params), "both at 16");
    if (control || alloc) event->params = (const void *)(uintptr_t)((const struct rm_alloc *)event->argument)->params;
}

static void controlled(const struct rm_event *event) {
    const struct rm_control *control = event->argument;
    if (event->size != sizeof *control || control->status != RM_OK) return;
    if (control->command == RM_CMD_SCHEDULE_GROUP || control->command == RM_CMD_SCHEDULE_CHANNEL)
        rm_scheduled(control->client, control->object);
}

static int watched(int fd, unsigned long request, void *argument, struct rm_event *event) {
    bool freeing = event->escape == RM_ESCAPE_FREE && event->size == sizeof(struct rm_free);
    const struct rm_free *free_argument = event->argument;
    if (freeing) rm_freeing(free_argument->client, free_argument->object);
    uint64_t begin = rm_trace_begin();
    int result = rm_ioctl(fd, request, argument);
    int saved = errno;
    find_params(event);
    rm_trace(event, request, result, begin);
    if (freeing) rm_freed(event, result == 0 && free_argument->status == RM_OK);
    else if (result == 0 && event->escape == RM_ESCAPE_ALLOC) rm_allocated(event);
    else if (result == 0 && event->escape == RM_ESCAPE_CONTROL) controlled(event);
    errno = saved;
    return result;
}

ROWEN_API int ioctl(int fd, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (_IOC_TYPE(request) != RM_MAGIC || _IOC_DIR(request) != (_IOC_READ | _IOC_WRITE) || !argument)
        return rm_ioctl(fd, request, argument);
    struct rm_event event = {.fd = fd};
    unwrap(request, argument, &event);
    return watched(fd, request, argument, &event);
}
