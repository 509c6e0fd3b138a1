// silu(gate) * up, and the conversion that the down projection wants, one block per row, the row in registers. The channels'
// scales, which nothing writes, are asked for while the kernel before this one is still at work.
#include <common/numeric.cuh>

constexpr int QUADS = KF_QUADS;
constexpr int SWIGLU_THREADS = 512;

struct SwigluParams {
    Product gate_up;   // [rows, 2 * width]: gates, then ups
    u16* out_bf16;     // [rows, width], or null and out_fp8 [rows, 2, width] with out_scale [rows]
    u8* out_fp8;
    float* out_scale;
    int width;         // a multiple of 4, at most 4 * KF_QUADS * threads
};

KF_KERNEL_EARLY(swiglu, SwigluParams, SWIGLU_THREADS) {
    KF_SHARED(shared);
    float* scratch = reinterpret_cast<float*>(shared);
    long long row = blockIdx.x;
    const float* scales = p.gate_up.channel_scale;
    float4 v[QUADS], gate_scales[QUADS], up_scales[QUADS];
    float amax = 0.0f;
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        int i = 4 * (threadIdx.x + q * SWIGLU_THREADS);
        gate_scales[q] = up_scales[q] = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
        if (i >= p.width || !scales) continue;
        gate_scales[q] = *reinterpret_cast<const float4*>(scales + i);
        up_scales[q] = *reinterpret_cast<const float4*>(scales + p.width + i);
    }
    ptx::follow_previous();
    float row_scale = p.gate_up.row_scale ? p.gate_up.row_scale[row] : 1.0f;
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        int i = 4 * (threadIdx.x + q * SWIGLU_THREADS);
        v[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i >= p.width) continue;
        float4 g = raw_quad(p.gate_up, row, 2 * p.width, i), u = raw_quad(p.gate_up, row, 2 * p.width, p.width + i);
        float4 gs = gate_scales[q], us = up_scales[q];
        v[q] = make_float4(silu(g.x * row_scale * gs.x) * (u.x * row_scale * us.x),
                           silu(g.y * row_scale * gs.y) * (u.y * row_scale * us.y),
                           silu(g.z * row_scale * gs.z) * (u.z * row_scale * us.z),
                           silu(g.w * row_scale * gs.w) * (u.w * row_scale * us.w));
        amax = fmaxf(amax, largest_of(v[q]));
    }
    float to_fp8 = 0.0f;
    if (p.out_fp8) to_fp8 = fp8_scale(block_max<SWIGLU_THREADS>(amax, scratch), p.out_scale + row);
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        int i = 4 * (threadIdx.x + q * SWIGLU_THREADS);
        if (i < p.width) store_quad(v[q], row, p.width, i, p.out_bf16, p.out_fp8, to_fp8);
    }
}
