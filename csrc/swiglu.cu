// silu(gate) * up, and the conversion that the down projection wants, one block per row.
#include <common/numeric.cuh>

struct SwigluParams {
    Product gate_up;   // [rows, 2 * width]: gates, then ups
    u16* out_bf16;     // [rows, width], or null and out_fp8 [rows, width] with out_scale [rows]
    u8* out_fp8;
    float* out_scale;
    int width;  // a multiple of 4
};

constexpr int SWIGLU_THREADS = 1024;

KF_KERNEL(swiglu, SwigluParams, SWIGLU_THREADS) {
    KF_SHARED(shared);
    float* scratch = reinterpret_cast<float*>(shared);
    float* values = scratch + 32;  // [width]
    int row = blockIdx.x;
    const u16* gates = p.gate_up.values + static_cast<long long>(row) * 2 * p.width;
    const float* scales = p.gate_up.channel_scale;
    float row_scale = p.gate_up.row_scale ? p.gate_up.row_scale[row] : 1.0f;
    float amax = 0.0f;
    for (int i = 4 * threadIdx.x; i < p.width; i += 4 * SWIGLU_THREADS) {
        uint2 g = *reinterpret_cast<const uint2*>(gates + i);
        uint2 u = *reinterpret_cast<const uint2*>(gates + p.width + i);
        float4 gs = make_float4(1.0f, 1.0f, 1.0f, 1.0f), us = gs;
        if (scales) {
            gs = *reinterpret_cast<const float4*>(scales + i);
            us = *reinterpret_cast<const float4*>(scales + p.width + i);
        }
        float4 v = make_float4(silu(bf16_low(g.x) * row_scale * gs.x) * (bf16_low(u.x) * row_scale * us.x),
                               silu(bf16_high(g.x) * row_scale * gs.y) * (bf16_high(u.x) * row_scale * us.y),
                               silu(bf16_low(g.y) * row_scale * gs.z) * (bf16_low(u.y) * row_scale * us.z),
                               silu(bf16_high(g.y) * row_scale * gs.w) * (bf16_high(u.y) * row_scale * us.w));
        *reinterpret_cast<float4*>(values + i) = v;
        amax = fmaxf(amax, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
    amax = block_max<SWIGLU_THREADS>(amax, scratch);
    long long out = static_cast<long long>(row) * p.width;
    store_row<SWIGLU_THREADS>(values, p.width, amax, p.out_bf16 + out, p.out_fp8 ? p.out_fp8 + out : nullptr,
                              p.out_scale + row);
}
