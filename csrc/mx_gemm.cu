// MXFP8 for cards whose tensor cores take block scales (sm_120a): activations to E4M3 with one UE8M0 scale for each 32
// values along K, and their product with weights of the same form. The tensor core applies both scales.
#include <common/small_gemm.cuh>

constexpr int TILES = KF_TOKEN_TILES;
constexpr int QUANTISE_THREADS = 256;
constexpr u32 UNIT_SCALE = 127, LARGEST_EXPONENT = 8, LARGEST_MANTISSA = 0x600000;  // 448 is 1.75 * 2^8

struct MxQuantiseParams {
    const u16* x;    // bf16 [values], whole groups of 32
    u8* out;         // E4M3 [values]
    u8* scale;       // UE8M0 [values / 32]
    int values;
};

// Four lanes share a group. Its scale is the smallest power of two at which nothing saturates: the exponent of amax less that
// of 448, and one more where amax has the larger mantissa, which the sum below carries into the exponent.
KF_KERNEL(mx_quantise, MxQuantiseParams, QUANTISE_THREADS) {
    int first = 8 * (blockIdx.x * QUANTISE_THREADS + threadIdx.x);
    uint4 raw = make_uint4(0, 0, 0, 0);
    if (first < p.values) raw = *reinterpret_cast<const uint4*>(p.x + first);
    u32 pairs[4] = {raw.x, raw.y, raw.z, raw.w};
    float amax = 0.0f;
    for (int i = 0; i < 4; i++) amax = fmaxf(amax, fmaxf(fabsf(bf16_low(pairs[i])), fabsf(bf16_high(pairs[i]))));
    amax = fmaxf(amax, __shfl_xor_sync(ALL_LANES, amax, 1));
    amax = fmaxf(amax, __shfl_xor_sync(ALL_LANES, amax, 2));
    if (first >= p.values) return;
    u32 exponent = max((__float_as_uint(amax) + (0x7fffff - LARGEST_MANTISSA)) >> 23, LARGEST_EXPONENT) - LARGEST_EXPONENT;
    float to_fp8 = __uint_as_float((2 * UNIT_SCALE - exponent) << 23);
    u32 bytes[2];
    for (int i = 0; i < 2; i++) {
        u32 a = pairs[2 * i], b = pairs[2 * i + 1];
        u32 low = ptx::pack_e4m3(bf16_low(a) * to_fp8, bf16_high(a) * to_fp8);
        u32 high = ptx::pack_e4m3(bf16_low(b) * to_fp8, bf16_high(b) * to_fp8);
        bytes[i] = low | high << 16;
    }
    *reinterpret_cast<uint2*>(p.out + first) = make_uint2(bytes[0], bytes[1]);
    if (first % GEMM_GROUP == 0) p.scale[first / GEMM_GROUP] = static_cast<u8>(exponent);
}

struct MxGemmParams {
    const u8* x;         // E4M3 [tokens, k]
    const u8* x_scale;   // UE8M0 [tokens, k / 32]
    const u8* weights;   // E4M3 [outputs, k]
    const u8* scale;     // UE8M0 [outputs, k / 32]
    u16* out;            // bf16 [tokens, outputs]
    int tokens;
    int outputs;         // a multiple of 16
    int k;               // a multiple of 32
};

KF_KERNEL(mx_gemm, MxGemmParams, GEMM_THREADS) {
    KF_SHARED(shared);
    int g = warp_lane() / 4, j = warp_lane() % 4, row = blockIdx.x * GEMM_ROWS + g, first_token = blockIdx.y * 8 * TILES;
    int groups = p.k / GEMM_GROUP;
    const u8* upper = p.weights + static_cast<long long>(row) * p.k + 8 * j;
    const u8* lower = upper + 8ll * p.k;
    // The tensor core takes the scale of row g from lane 4g and of row g + 8 from lane 4g + 1.
    const u8* scale = p.scale + static_cast<long long>(row + (j == 1 ? 8 : 0)) * groups;
    float total[TILES][4] = {};
#pragma unroll 2
    for (int group = warp_index(); group < groups; group += GEMM_WARPS) {
        int k = GEMM_GROUP * group;
        uint2 up = *reinterpret_cast<const uint2*>(upper + k), low = *reinterpret_cast<const uint2*>(lower + k);
        u32 a[4] = {up.x, low.x, up.y, low.y}, a_scale = scale[group];
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            long long token = first_token + 8 * t + g;
            uint2 x = make_uint2(0, 0);
            u32 x_scale = UNIT_SCALE;
            if (token < p.tokens) {
                x = *reinterpret_cast<const uint2*>(p.x + token * p.k + k + 8 * j);
                x_scale = p.x_scale[token * groups + group];
            }
            ptx::mma_mx(total[t], a, x.x, x.y, a_scale, x_scale);
        }
    }
    store_sums<TILES>(total, reinterpret_cast<float*>(shared), p.out, first_token, p.tokens, p.outputs);
}
