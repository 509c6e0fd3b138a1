// Conversions between packed and plain numbers, and sums over a warp and a block. Plain C++ over ptx.cuh.
#pragma once

#include <common/ptx.cuh>

// What joins the threads of a block. A kernel whose warps have different roles defines its own.
#ifndef KF_BLOCK_SYNC
#define KF_BLOCK_SYNC() __syncthreads()
#endif

#define KF_INFINITY __uint_as_float(0x7f800000u)

constexpr u32 ALL_LANES = 0xffffffffu;
constexpr float E4M3_MAX = 448.0f;
constexpr float F16_MAX = 65504.0f;
// A row of zeros must not divide by zero: its scale is this over 448.
constexpr float AMAX_FLOOR = 1e-10f;

KF_DEVICE u32 warp_lane() { return threadIdx.x % 32; }
KF_DEVICE u32 warp_index() { return threadIdx.x / 32; }

KF_DEVICE float bf16_low(u32 pair) { return __uint_as_float(pair << 16); }
KF_DEVICE float bf16_high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
KF_DEVICE float bf16_to_float(u16 bits) { return __uint_as_float(static_cast<u32>(bits) << 16); }
KF_DEVICE u16 float_to_bf16(float value) { return static_cast<u16>(ptx::pack_bf16(value, 0.0f)); }

// fp16 that saturates: an activation beyond 65504 stays finite.
KF_DEVICE u32 pack_f16_clamped(float lo, float hi) {
    return ptx::pack_f16(fminf(fmaxf(lo, -F16_MAX), F16_MAX), fminf(fmaxf(hi, -F16_MAX), F16_MAX));
}

KF_DEVICE float f16_low(u32 pair) { return ptx::f16_to_float(static_cast<u16>(pair)); }
KF_DEVICE float f16_high(u32 pair) { return ptx::f16_to_float(static_cast<u16>(pair >> 16)); }

KF_DEVICE float silu(float x) { return x / (1.0f + expf(-x)); }

KF_DEVICE float warp_sum(float value) {
    for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(ALL_LANES, value, mask);
    return value;
}

KF_DEVICE float warp_max(float value) {
    for (int mask = 16; mask > 0; mask /= 2) value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, mask));
    return value;
}

// Over a block of `threads`; scratch is float[32], free for reuse when the call returns. Every thread gets the result.
// The order of the sum is fixed, so the result is the same on every run.
template <int threads, bool is_max>
KF_DEVICE float block_reduce(float value, float* scratch) {
    value = is_max ? warp_max(value) : warp_sum(value);
    if (warp_lane() == 0) scratch[warp_index()] = value;
    KF_BLOCK_SYNC();
    float result = scratch[0];
    for (int w = 1; w < threads / 32; w++) result = is_max ? fmaxf(result, scratch[w]) : result + scratch[w];
    KF_BLOCK_SYNC();
    return result;
}

template <int threads>
KF_DEVICE float block_sum(float value, float* scratch) { return block_reduce<threads, false>(value, scratch); }

template <int threads>
KF_DEVICE float block_max(float value, float* scratch) { return block_reduce<threads, true>(value, scratch); }

KF_DEVICE float largest_of(float4 v) {
    return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

// From a row's largest magnitude: what to multiply by before rounding to E4M3. Thread 0 stores the inverse, the scale.
KF_DEVICE float fp8_scale(float amax, float* scale) {
    float floored = fmaxf(amax, AMAX_FLOOR);
    if (threadIdx.x == 0) *scale = floored / E4M3_MAX;
    return E4M3_MAX / floored;
}

// Four values as bf16, or as E4M3 after multiplying by to_fp8.
KF_DEVICE void store_quad(float4 v, long long place, u16* as_bf16, u8* as_fp8, float to_fp8) {
    if (as_fp8) {
        u32 low = ptx::pack_e4m3(v.x * to_fp8, v.y * to_fp8), high = ptx::pack_e4m3(v.z * to_fp8, v.w * to_fp8);
        *reinterpret_cast<u32*>(as_fp8 + place) = low | high << 16;
    } else {
        *reinterpret_cast<uint2*>(as_bf16 + place) = make_uint2(ptx::pack_bf16(v.x, v.y), ptx::pack_bf16(v.z, v.w));
    }
}

// What a matrix product left behind: raw bf16, times the scale of its row (of activations) and channel (of weights).
// Null scales mean a bf16 product that needs none.
struct Product {
    const u16* values;          // [rows, width]
    const float* row_scale;     // [rows] or null
    const float* channel_scale; // [width] or null
};
