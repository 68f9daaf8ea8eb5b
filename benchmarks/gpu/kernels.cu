// Kernels of the measurements. Counters lie in host memory that the device writes to.

// Iterates a linear congruential generator per thread; every `stride` steps each block counts one beat.
extern "C" __global__ void iterate(unsigned long long *states, unsigned long long steps, unsigned long long stride,
                                   volatile unsigned long long *beats) {
    unsigned long long index = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    unsigned long long state = states[index] + index;
    for (unsigned long long step = 0; step < steps; step++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        if (threadIdx.x == 0 && step % stride == 0) {
            beats[blockIdx.x] += 1;
            __threadfence_system();
        }
    }
    states[index] = state;
}

// One beat of counter 0, in the order of the stream.
extern "C" __global__ void beat(volatile unsigned long long *beats) {
    beats[0] += 1;
    __threadfence_system();
}

// Adds one to each word of a range, `rounds` times over; each block counts a beat per round.
extern "C" __global__ void sweep(unsigned int *words, unsigned long long count, unsigned long long rounds,
                                 volatile unsigned long long *beats) {
    for (unsigned long long round = 0; round < rounds; round++) {
        for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < count;
             i += (unsigned long long)gridDim.x * blockDim.x)
            words[i] += 1;
        if (threadIdx.x == 0) {
            beats[blockIdx.x] += 1;
            __threadfence_system();
        }
    }
}
