// One head vector spread over a warp: optional RMSNorm over the head, then rotation of the pairs (2i, 2i+1).
#pragma once

#include <common/numeric.cuh>

// Lane l holds elements l * per_lane ..; a pair never straddles lanes. rope_row: cos, sin per pair.
template <int per_lane>
KF_DEVICE void norm_and_rotate(float (&v)[per_lane], const u16* norm, const float* rope_row, float eps) {
    int first = warp_lane() * per_lane;
    if (norm) {
        float squares = 0.0f;
        for (int i = 0; i < per_lane; i++) squares += v[i] * v[i];
        float inverse = rsqrtf(warp_sum(squares) / (32 * per_lane) + eps);
        for (int i = 0; i < per_lane; i++) v[i] *= inverse * bf16_to_float(norm[first + i]);
    }
    for (int i = 0; i < per_lane; i += 2) {
        float cosine = rope_row[first + i], sine = rope_row[first + i + 1];
        float even = v[i], odd = v[i + 1];
        v[i] = even * cosine - odd * sine;
        v[i + 1] = odd * cosine + even * sine;
    }
}
