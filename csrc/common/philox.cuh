// Philox4x32-10 (Salmon et al. 2011): the noise of engine/model/sampling.py, word for word.
#pragma once

#include <common/ptx.cuh>

// The uniform of logit `index`: counter (index / 4, frame, stream, 0), key = the two halves of the seed; in (0, 1).
KF_DEVICE float philox_uniform(u32 seed_low, u32 seed_high, u32 frame, u32 stream, u32 index) {
    u32 c0 = index / 4, c1 = frame, c2 = stream, c3 = 0, k0 = seed_low, k1 = seed_high;
    for (int round = 0; round < 10; round++) {
        u32 high0 = __umulhi(c0, 0xD2511F53u), low0 = c0 * 0xD2511F53u;
        u32 high1 = __umulhi(c2, 0xCD9E8D57u), low1 = c2 * 0xCD9E8D57u;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    u32 word = index % 4 == 0 ? c0 : index % 4 == 1 ? c1 : index % 4 == 2 ? c2 : c3;
    return (static_cast<float>(word >> 9) + 0.5f) * 1.1920928955078125e-7f;  // 2^-23
}
