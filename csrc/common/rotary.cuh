// One head vector spread over a warp: optional RMSNorm over the head, then rotation of the pairs (2i, 2i+1).
#pragma once

#include <common/numeric.cuh>

template <int per_lane>
KF_DEVICE void load_bf16(const u16* from, float (&v)[per_lane]) {
    static_assert(per_lane == 2 || per_lane == 4, "heads of 64 or 128");
    if constexpr (per_lane == 4) {
        float4 quad = unpack_bf16(*reinterpret_cast<const uint2*>(from));
        v[0] = quad.x, v[1] = quad.y, v[2] = quad.z, v[3] = quad.w;
    } else {
        u32 pair = *reinterpret_cast<const u32*>(from);
        v[0] = bf16_low(pair), v[1] = bf16_high(pair);
    }
}

// This lane's part of a head that begins at `column` of a product's row, terms joined, scaled.
template <int per_lane>
KF_DEVICE void load_head(const Product& product, int row, int width, int column, float (&v)[per_lane]) {
    column += warp_lane() * per_lane;
    const u16* from = product.values + static_cast<long long>(product.row_scale ? 2 * row : row) * width + column;
    load_bf16(from, v);
    if (!product.row_scale) return;
    float second[per_lane], scale = product.row_scale[row];
    load_bf16(from + width, second);
    for (int i = 0; i < per_lane; i++) v[i] = (v[i] + second[i] / TERM_STEP) * (scale * product.channel_scale[column + i]);
}

// This lane's part of a head, rounded to bf16, to contiguous memory.
template <int per_lane>
KF_DEVICE void store_bf16(u16* to, const float (&v)[per_lane]) {
    for (int i = 0; i < per_lane; i += 2) reinterpret_cast<u32*>(to)[i / 2] = ptx::pack_bf16(v[i], v[i + 1]);
}

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
