// One head vector spread over a warp: optional RMSNorm over the head, then rotation of the pairs (2i, 2i+1).
#pragma once

#include <common/numeric.cuh>

// This lane's part of a head that begins at `column` of a product's row, scaled.
template <int per_lane>
KF_DEVICE void load_head(const Product& product, int row, int width, int column, float (&v)[per_lane]) {
    static_assert(per_lane == 2 || per_lane == 4, "heads of 64 or 128");
    column += warp_lane() * per_lane;
    if constexpr (per_lane == 4) {
        float4 quad = raw_quad(product, row, width, column);
        v[0] = quad.x, v[1] = quad.y, v[2] = quad.z, v[3] = quad.w;
    } else {
        int terms = product.row_scale ? 2 : 1;
        const u16* from = product.values + static_cast<long long>(row) * terms * width + column;
        u32 first = *reinterpret_cast<const u32*>(from), second = terms == 2 ? *reinterpret_cast<const u32*>(from + width) : 0;
        v[0] = bf16_low(first) + bf16_low(second) / TERM_STEP;
        v[1] = bf16_high(first) + bf16_high(second) / TERM_STEP;
    }
    if (!product.row_scale) return;
    float scale = product.row_scale[row];
    for (int i = 0; i < per_lane; i++) v[i] *= scale * product.channel_scale[column + i];
}

// This lane's part of a head, rounded to bf16, to contiguous memory.
template <int per_lane>
KF_DEVICE void store_bf16(u16* to, const float (&v)[per_lane]) {
    for (int i = 0; i < per_lane; i += 2) reinterpret_cast<u32*>(to)[i / 2] = ptx::pack_bf16(v[i], v[i + 1]);
}

template <int per_lane>
KF_DEVICE void load_bf16(const u16* from, float (&v)[per_lane]) {
    for (int i = 0; i < per_lane; i += 2) {
        u32 bits = reinterpret_cast<const u32*>(from)[i / 2];
        v[i] = bf16_low(bits);
        v[i + 1] = bf16_high(bits);
    }
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
