// A ring of weight chunks in shared memory: one thread keeps it full with bulk copies, the consumer warps empty it.
//
// The producer knows nothing of phases: it walks the block's weights in the order they are used, so while the block waits
// for the others the next phases' weights are already on their way.
//
// Only IN_FLIGHT chunks are asked for at a time, though the ring is deeper: enough to keep the memory busy. More would
// queue in front of the L2, and the small messages between blocks would wait behind them.
#pragma once

#include <common/numeric.cuh>

template <int STAGES, int STAGE_BYTES, int IN_FLIGHT>
struct WeightRing {
    static_assert(IN_FLIGHT <= STAGES, "a stage holds one chunk");
    static constexpr int SHARED_BYTES = STAGES * (STAGE_BYTES + 16);
    u8* stages;
    u64* full;   // [STAGES], then empty [STAGES]
    int stage = 0;
    u32 parity = 0;
    int landing = 0;         // the producer: oldest chunk that may still be on its way
    u32 landing_parity = 0;
    int asked = 0;

    KF_DEVICE explicit WeightRing(u8* shared)
        : stages(shared), full(reinterpret_cast<u64*>(shared + STAGES * STAGE_BYTES)) {}

    // One thread, before the block's first barrier.
    KF_DEVICE void init(int consumer_warps) {
        for (int s = 0; s < STAGES; s++) {
            ptx::mbarrier_init(full + s, 1);
            ptx::mbarrier_init(full + STAGES + s, consumer_warps);
        }
        ptx::mbarrier_init_fence();
    }

    KF_DEVICE void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }

    // The producer. The wait before the first round passes at once: a fresh barrier counts as having finished phase 1.
    KF_DEVICE void put(const u8* weights, u32 bytes) {
        if (asked == IN_FLIGHT) {
            ptx::mbarrier_wait(full + landing, landing_parity);
            if (++landing == STAGES) {
                landing = 0;
                landing_parity ^= 1;
            }
        } else {
            asked++;
        }
        ptx::mbarrier_wait(full + STAGES + stage, parity ^ 1);
        ptx::mbarrier_arrive_expect(full + stage, bytes);
        ptx::bulk_load(stages + stage * STAGE_BYTES, weights, bytes, full + stage);
        advance();
    }

    // A consumer: the next chunk, once it is there.
    KF_DEVICE const u8* take() {
        ptx::mbarrier_wait(full + stage, parity);
        return stages + stage * STAGE_BYTES;
    }

    // Every lane is done reading the chunk.
    KF_DEVICE void release() {
        __syncwarp();
        if (warp_lane() == 0) ptx::mbarrier_arrive(full + STAGES + stage);
        advance();
    }
};
