// Residual add, RMSNorm, and the conversion that the next matrix product wants, one block per output row.
#include <common/numeric.cuh>

struct AddNormParams {
    float* x;            // residual stream [rows, dim]; updated in place where delta is given
    Product delta;       // [rows, dim], or values null
    const u16* weight;   // bf16 [dim]
    u16* out_bf16;       // [B, dim] or null
    u8* out_fp8;         // [B, dim] or null; then out_scale [B]
    float* out_scale;
    float* out_float;    // [B, dim] or null: the normed row at full precision
    float* out_sum;      // [B, dim] or null: the residual itself, for models whose fast input is not normed
    int row_step;        // row b of the output comes from row b * row_step + row_first of x
    int row_first;
    int dim;  // a multiple of 4
    float eps;
};

constexpr int ADD_NORM_THREADS = 512;

KF_KERNEL(add_norm, AddNormParams, ADD_NORM_THREADS) {
    KF_SHARED(shared);
    float* scratch = reinterpret_cast<float*>(shared);
    float* values = scratch + 32;  // [dim]
    int row = blockIdx.x * p.row_step + p.row_first;
    float* x = p.x + static_cast<long long>(row) * p.dim;
    float squares = 0.0f;
    float row_scale = p.delta.row_scale ? p.delta.row_scale[row] : 1.0f;
    for (int i = 4 * threadIdx.x; i < p.dim; i += 4 * ADD_NORM_THREADS) {
        float4 v = *reinterpret_cast<float4*>(x + i);
        if (p.delta.values) {
            uint2 d = *reinterpret_cast<const uint2*>(p.delta.values + static_cast<long long>(row) * p.dim + i);
            float4 s = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
            if (p.delta.channel_scale) s = *reinterpret_cast<const float4*>(p.delta.channel_scale + i);
            v.x += bf16_low(d.x) * row_scale * s.x;
            v.y += bf16_high(d.x) * row_scale * s.y;
            v.z += bf16_low(d.y) * row_scale * s.z;
            v.w += bf16_high(d.y) * row_scale * s.w;
            *reinterpret_cast<float4*>(x + i) = v;
        }
        *reinterpret_cast<float4*>(values + i) = v;
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    float inverse = rsqrtf(block_sum<ADD_NORM_THREADS>(squares, scratch) / p.dim + p.eps);
    float amax = 0.0f;
    long long float_row = static_cast<long long>(blockIdx.x) * p.dim;
    for (int i = 4 * threadIdx.x; i < p.dim; i += 4 * ADD_NORM_THREADS) {
        for (int j = i; j < i + 4; j++) {
            if (p.out_sum) p.out_sum[float_row + j] = values[j];
            float normed = values[j] * inverse * bf16_to_float(p.weight[j]);
            if (p.out_float) p.out_float[float_row + j] = normed;
            values[j] = normed;
            amax = fmaxf(amax, fabsf(normed));
        }
    }
    amax = block_max<ADD_NORM_THREADS>(amax, scratch);
    long long out = static_cast<long long>(blockIdx.x) * p.dim;
    store_row<ADD_NORM_THREADS>(values, p.dim, amax, p.out_bf16 + out, p.out_fp8 ? p.out_fp8 + out : nullptr,
                                p.out_scale + blockIdx.x);
}
