/* Calls back before and after every system call that the arena makes; linked with --wrap=syscall. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

/* `third`: its third argument; `after`: 0 before the call, 1 after it. Before it, anything but 0 is the error that it
 * fails with instead. */
typedef int hook_function(long number, long third, int after);

static hook_function *hook;

void set_hook(hook_function *function) { hook = function; }

long __real_syscall(long number, ...);

long __wrap_syscall(long number, ...) {
    long values[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) values[i] = va_arg(rest, long);
    va_end(rest);
    hook_function *called = hook;
    hook = NULL;
    int error = called ? called(number, values[2], 0) : 0;
    long result = error ? -1 : __real_syscall(number, values[0], values[1], values[2], values[3], values[4], values[5]);
    if (!error) error = errno;
    if (called) called(number, values[2], 1);
    hook = called;
    errno = error;
    return result;
}
