// How the slow transformer's keys and values stand in memory: bf16, or E4M3 (KF_KV_FP8), which halves what attention reads.
//
// E4M3 carries no scales: keys are normed (a model without qk-norm keeps bf16), and both lie well inside its 2^-9 .. 448.
// It is widened to fp16, exactly, so the queries and the weights of the keys are fp16 beside it.
//
// keys [position, D]; values [position / 2, D, 2]: a pair of positions stands together, as the tensor cores' B operand
// wants it.
#pragma once

#include <common/rotary.cuh>

#if KF_KV_FP8

using KvValue = u8;

template <int per_lane>
KF_DEVICE void store_query(u16* to, const float (&v)[per_lane]) {
    for (int i = 0; i < per_lane; i += 2) reinterpret_cast<u32*>(to)[i / 2] = pack_f16_clamped(v[i], v[i + 1]);
}

template <int per_lane>
KF_DEVICE void store_key(KvValue* to, const float (&v)[per_lane]) {
    for (int i = 0; i < per_lane; i += 2) reinterpret_cast<u16*>(to)[i / 2] = ptx::pack_e4m3(v[i], v[i + 1]);
}

KF_DEVICE KvValue pack_value(float value) { return static_cast<KvValue>(ptx::pack_e4m3(value, 0.0f)); }

KF_DEVICE u32 pack_weights(float first, float second) { return ptx::pack_f16(first, second); }

KF_DEVICE void multiply_upper(float& c0, float& c1, u32 a0, u32 a2, u32 b0, u32 b1) {
    ptx::mma_f16_upper(c0, c1, a0, a2, b0, b1);
}

// 8 dims of 16 bits, as the A operand's registers of two steps. A lane has 16 neighbouring dims of every 64.
template <int D>
KF_DEVICE const uint4* query_quads(const u16* query, int load) {
    return reinterpret_cast<const uint4*>(query + load / 2 * 64 + warp_lane() % 4 * 16 + load % 2 * 8);
}

// The B operand of all steps for this lane's key.
template <int D>
KF_DEVICE void load_key(const KvValue* key, u32 (&fragments)[D / 16][2]) {
#pragma unroll
    for (int i = 0; i < D / 64; i++) {
        uint4 dims = *reinterpret_cast<const uint4*>(key + 64 * i + warp_lane() % 4 * 16);
        u32 words[4] = {dims.x, dims.y, dims.z, dims.w};
#pragma unroll
        for (int w = 0; w < 4; w++)
            for (int half = 0; half < 2; half++)
                fragments[4 * i + w][half] = ptx::unpack_e4m3(static_cast<u16>(words[w] >> 16 * half));
    }
}

// The B operand of 4 neighbouring dims, for a pair of positions of which `exist` are written: what an earlier owner left
// in the others may not be a number, and 0 * NaN is NaN.
KF_DEVICE void load_values(const KvValue* values, int exist, u32 (&fragments)[4]) {
    u32 keep = exist > 1 ? 0xffffffffu : exist == 1 ? 0x00ff00ffu : 0u;
    uint2 dims = *reinterpret_cast<const uint2*>(values);
    u32 words[2] = {dims.x & keep, dims.y & keep};
#pragma unroll
    for (int d = 0; d < 4; d++) fragments[d] = ptx::unpack_e4m3(static_cast<u16>(words[d / 2] >> 16 * (d % 2)));
}

#else

using KvValue = u16;

template <int per_lane>
KF_DEVICE void store_query(u16* to, const float (&v)[per_lane]) { store_bf16(to, v); }

template <int per_lane>
KF_DEVICE void store_key(KvValue* to, const float (&v)[per_lane]) { store_bf16(to, v); }

KF_DEVICE KvValue pack_value(float value) { return float_to_bf16(value); }

KF_DEVICE u32 pack_weights(float first, float second) { return ptx::pack_bf16(first, second); }

KF_DEVICE void multiply_upper(float& c0, float& c1, u32 a0, u32 a2, u32 b0, u32 b1) {
    ptx::mma_bf16_upper(c0, c1, a0, a2, b0, b1);
}

// 8 dims of 16 bits, as the A operand's registers of two steps. A lane has 8 neighbouring dims of every 32.
template <int D>
KF_DEVICE const uint4* query_quads(const u16* query, int load) {
    return reinterpret_cast<const uint4*>(query + load * 32 + warp_lane() % 4 * 8);
}

// The B operand of all steps for this lane's key.
template <int D>
KF_DEVICE void load_key(const KvValue* key, u32 (&fragments)[D / 16][2]) {
#pragma unroll
    for (int i = 0; i < D / 32; i++) {
        uint4 dims = *reinterpret_cast<const uint4*>(key + 32 * i + warp_lane() % 4 * 8);
        fragments[2 * i][0] = dims.x;
        fragments[2 * i][1] = dims.y;
        fragments[2 * i + 1][0] = dims.z;
        fragments[2 * i + 1][1] = dims.w;
    }
}

// The B operand of 4 neighbouring dims, for a pair of positions of which `exist` are written: what an earlier owner left
// in the others may not be a number, and 0 * NaN is NaN.
KF_DEVICE void load_values(const KvValue* values, int exist, u32 (&fragments)[4]) {
    u32 keep = exist > 1 ? 0xffffffffu : exist == 1 ? 0xffffu : 0u;
    uint4 dims = *reinterpret_cast<const uint4*>(values);
    fragments[0] = dims.x & keep;
    fragments[1] = dims.y & keep;
    fragments[2] = dims.z & keep;
    fragments[3] = dims.w & keep;
}

#endif
