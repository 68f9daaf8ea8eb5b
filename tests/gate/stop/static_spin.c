/* A program without a dynamic linker: nothing can be preloaded into it. Counts in the test's shared memory. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(void) {
    volatile uint64_t *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(getenv("COUNTS"), O_RDWR), 0);
    for (;;) counts[0]++;
}
