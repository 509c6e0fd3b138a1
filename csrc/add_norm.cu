// Residual add, RMSNorm, and the conversion that the next matrix product wants, one block per output row.
//
// A row fits the block's registers (KF_QUADS float4 per thread). The norm's weights and the channels' scales are cold, and
// nothing writes them: they are asked for while the kernel before this one is still at work.
#include <common/numeric.cuh>

constexpr int QUADS = KF_QUADS;
constexpr int ADD_NORM_THREADS = 256;

struct AddNormParams {
    float* x;            // residual stream [rows, dim]; updated in place where delta is given
    Product delta;       // [rows, dim], or values null
    const u16* weight;   // bf16 [dim]
    u16* out_bf16;       // [B, dim] or null
    u8* out_fp8;         // [B, 2, dim] or null; then out_scale [B]
    float* out_scale;
    float* out_float;    // [B, dim] or null: the normed row at full precision
    float* out_sum;      // [B, dim] or null: the residual itself, for models whose fast input is not normed
    int row_step;        // row b of the output comes from row b * row_step + row_first of x
    int row_first;
    int dim;             // a multiple of 4, at most 4 * KF_QUADS * threads
    float eps;
};

KF_KERNEL_EARLY(add_norm, AddNormParams, ADD_NORM_THREADS) {
    KF_SHARED(shared);
    float* scratch = reinterpret_cast<float*>(shared);
    long long row = static_cast<long long>(blockIdx.x) * p.row_step + p.row_first, out_row = blockIdx.x;
    float4 v[QUADS], weight[QUADS], scale[QUADS];
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        int i = 4 * (threadIdx.x + q * ADD_NORM_THREADS);
        v[q] = weight[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        scale[q] = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
        if (i >= p.dim) continue;
        weight[q] = unpack_bf16(*reinterpret_cast<const uint2*>(p.weight + i));
        if (p.delta.channel_scale) scale[q] = *reinterpret_cast<const float4*>(p.delta.channel_scale + i);
    }
    ptx::follow_previous();
    float row_scale = p.delta.row_scale ? p.delta.row_scale[row] : 1.0f;
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        int i = 4 * (threadIdx.x + q * ADD_NORM_THREADS);
        if (i >= p.dim) continue;
        v[q] = *reinterpret_cast<const float4*>(p.x + row * p.dim + i);
        if (!p.delta.values) continue;
        float4 d = raw_quad(p.delta, row, p.dim, i), s = scale[q];
        v[q] = make_float4(v[q].x + d.x * row_scale * s.x, v[q].y + d.y * row_scale * s.y,
                           v[q].z + d.z * row_scale * s.z, v[q].w + d.w * row_scale * s.w);
    }
    float squares = 0.0f;
#pragma unroll
    for (int q = 0; q < QUADS; q++) squares += v[q].x * v[q].x + v[q].y * v[q].y + v[q].z * v[q].z + v[q].w * v[q].w;
    float inverse = rsqrtf(block_sum<ADD_NORM_THREADS>(squares, scratch) / p.dim + p.eps);
    float amax = 0.0f;
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        int i = 4 * (threadIdx.x + q * ADD_NORM_THREADS);
        if (i >= p.dim) continue;
        if (p.delta.values) *reinterpret_cast<float4*>(p.x + row * p.dim + i) = v[q];
        if (p.out_sum) *reinterpret_cast<float4*>(p.out_sum + out_row * p.dim + i) = v[q];
        v[q] = make_float4(v[q].x * inverse * weight[q].x, v[q].y * inverse * weight[q].y,
                           v[q].z * inverse * weight[q].z, v[q].w * inverse * weight[q].w);
        if (p.out_float) *reinterpret_cast<float4*>(p.out_float + out_row * p.dim + i) = v[q];
        amax = fmaxf(amax, largest_of(v[q]));
    }
    float to_fp8 = 0.0f;
    if (p.out_fp8) to_fp8 = fp8_scale(block_max<ADD_NORM_THREADS>(amax, scratch + 32), p.out_scale + out_row);
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        int i = 4 * (threadIdx.x + q * ADD_NORM_THREADS);
        if (i < p.dim) store_quad(v[q], out_row, p.dim, i, p.out_bf16, p.out_fp8, to_fp8);
    }
}
