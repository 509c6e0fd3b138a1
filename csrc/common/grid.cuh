// A barrier over all blocks of a cooperative launch: one counter that only grows, so nothing needs resetting inside a
// launch. The caller zeroes it between launches.
#pragma once

#include <common/ptx.cuh>

// `threads` of each block take part (those that use named barrier `id`); `round` counts this launch's barriers from 1.
KF_DEVICE void grid_barrier(u32* counter, u32 round, u32 blocks, u32 id, u32 threads) {
    ptx::named_barrier(id, threads);
    if (threadIdx.x == 0) {
        ptx::add_release(counter, 1);
        while (ptx::load_acquire(counter) < round * blocks) {
        }
    }
    ptx::named_barrier(id, threads);
}
