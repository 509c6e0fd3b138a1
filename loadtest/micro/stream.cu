// How fast one persistent kernel can read weights, and what a barrier over the grid costs it: a producer warp keeps a
// ring of bulk copies full, consumer warps touch every byte, and all blocks meet after each phase.
#include <common/grid.cuh>

struct StreamParams {
    const u8* weights;
    u32* counter;   // zero
    u32* sink;
    long long block_stride;  // bytes between the streams of two blocks
    long long chunk_stride;  // bytes between two chunks of a stream
    int chunks;              // per block
    int phase_chunks;        // chunks between barriers; 0: none
};

constexpr int CHUNK = KF_CHUNK, STAGES = KF_STAGES, IN_FLIGHT = KF_IN_FLIGHT;
constexpr int CONSUMERS = 256;

KF_KERNEL(stream_weights, StreamParams, CONSUMERS + 32) {
    KF_SHARED(shared);
    u64* full = reinterpret_cast<u64*>(shared + STAGES * CHUNK);
    u64* empty = full + STAGES;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            ptx::mbarrier_init(full + s, 1);
            ptx::mbarrier_init(empty + s, CONSUMERS / 32);
        }
        ptx::mbarrier_init_fence();
    }
    __syncthreads();
    const u8* mine = p.weights + blockIdx.x * p.block_stride;
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x != CONSUMERS) return;
        for (int i = 0; i < p.chunks; i++) {
            int s = i % STAGES, landed = i - IN_FLIGHT;
            if (landed >= 0) ptx::mbarrier_wait(full + landed % STAGES, landed / STAGES % 2);
            if (i >= STAGES) ptx::mbarrier_wait(empty + s, (i / STAGES - 1) % 2);
            ptx::mbarrier_arrive_expect(full + s, CHUNK);
            ptx::bulk_load(shared + s * CHUNK, mine + i * p.chunk_stride, CHUNK, full + s);
        }
        return;
    }
    u32 sum = 0, round = 0;
    for (int i = 0; i < p.chunks; i++) {
        int s = i % STAGES;
        ptx::mbarrier_wait(full + s, i / STAGES % 2);
        for (int j = threadIdx.x * 16; j < CHUNK; j += CONSUMERS * 16) {
            uint4 v = *reinterpret_cast<const uint4*>(shared + s * CHUNK + j);
            sum += v.x ^ v.y ^ v.z ^ v.w;
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty + s);
        if (p.phase_chunks && (i + 1) % p.phase_chunks == 0) grid_barrier(p.counter, ++round, gridDim.x, 1, CONSUMERS);
    }
    if (sum == 0x12345) p.sink[0] = sum;
}
