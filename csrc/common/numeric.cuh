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

// By the hardware's exponential and reciprocal, good to some 2^-21: what follows is rounded to eight or eleven bits.
KF_DEVICE float silu(float x) { return __fdividef(x, 1.0f + exp2f(-1.44269504f * x)); }

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

KF_DEVICE float4 scaled(float4 v, float by) { return make_float4(v.x * by, v.y * by, v.z * by, v.w * by); }

KF_DEVICE float largest_of(float4 v) {
    return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

// From a row's largest magnitude: what to multiply by before rounding to E4M3. Thread 0 stores the inverse, the scale.
KF_DEVICE float fp8_scale(float amax, float* scale) {
    float floored = fmaxf(amax, AMAX_FLOOR);
    if (threadIdx.x == 0) *scale = floored / E4M3_MAX;
    return E4M3_MAX / floored;
}

// An activation in FP8 is two rows of E4M3 that share a scale: the value is scale * (first + second / TERM_STEP). The second
// row is what rounding the first has left, so together they have eight significant bits, as bf16 has. What is left is at
// most half a step of 32, so it stays in range; TERM_STEP is a power of two, so nothing is rounded on the way.
constexpr float TERM_STEP = 16.0f;

// Two values, scaled already, as a pair of E4M3 in each of the two terms.
KF_DEVICE void split_terms(float x, float y, u16& first, u16& second) {
    first = ptx::pack_e4m3(x, y);
    u32 rounded = ptx::unpack_e4m3(first);
    second = ptx::pack_e4m3((x - f16_low(rounded)) * TERM_STEP, (y - f16_high(rounded)) * TERM_STEP);
}

// Four values from `column` of a row, as bf16 [rows, width], or as E4M3 [rows, 2, width] after multiplying by to_fp8.
KF_DEVICE void store_quad(float4 v, long long row, int width, int column, u16* as_bf16, u8* as_fp8, float to_fp8) {
    if (as_fp8) {
        u16 first[2], second[2];
        split_terms(v.x * to_fp8, v.y * to_fp8, first[0], second[0]);
        split_terms(v.z * to_fp8, v.w * to_fp8, first[1], second[1]);
        u8* to = as_fp8 + row * 2 * width + column;
        *reinterpret_cast<u32*>(to) = first[0] | static_cast<u32>(first[1]) << 16;
        *reinterpret_cast<u32*>(to + width) = second[0] | static_cast<u32>(second[1]) << 16;
    } else {
        u16* to = as_bf16 + row * width + column;
        *reinterpret_cast<uint2*>(to) = make_uint2(ptx::pack_bf16(v.x, v.y), ptx::pack_bf16(v.z, v.w));
    }
}

// What a matrix product left behind: raw bf16. Of an FP8 product one row for each term of its input, times the scale of its
// row (of activations) and channel (of weights); null scales mean a bf16 product with one row and no scales.
struct Product {
    const u16* values;          // [rows, width], or [rows, 2, width] where scaled
    const float* row_scale;     // [rows] or null
    const float* channel_scale; // [width] or null
};

KF_DEVICE float4 unpack_bf16(uint2 bits) {
    return make_float4(bf16_low(bits.x), bf16_high(bits.x), bf16_low(bits.y), bf16_high(bits.y));
}

// Four neighbouring values of a product of `width` columns, terms joined, still to be scaled.
KF_DEVICE float4 raw_quad(const Product& product, long long row, int width, int column) {
    if (!product.row_scale) return unpack_bf16(*reinterpret_cast<const uint2*>(product.values + row * width + column));
    const u16* from = product.values + row * 2 * width + column;
    float4 first = unpack_bf16(*reinterpret_cast<const uint2*>(from));
    float4 second = unpack_bf16(*reinterpret_cast<const uint2*>(from + width));
    return make_float4(first.x + second.x / TERM_STEP, first.y + second.y / TERM_STEP, first.z + second.z / TERM_STEP,
                       first.w + second.w / TERM_STEP);
}
