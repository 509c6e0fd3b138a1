// bf16 activations times E4M3 weights whose groups share scales: per row, per 128 x 128 block, or per 32 values along K.
// Weights become bf16 in registers, exactly; sums run in fp32 and take the scale once for each group of 32 along K.
#include <common/small_gemm.cuh>

constexpr int TILES = KF_TOKEN_TILES;

struct GroupedGemmParams {
    const u16* x;        // bf16 [tokens, k]
    const u8* weights;   // E4M3 [outputs, k]
    const void* scale;   // [outputs / group_rows, k / group_columns], fp32 or UE8M0
    u16* out;            // bf16 [tokens, outputs]
    int tokens;
    int outputs;         // a multiple of 16
    int k;               // a multiple of 32
    int group_rows;
    int group_columns;   // a multiple of 32
    int power_of_two;    // the scales are UE8M0
};

KF_DEVICE float scale_of(const GroupedGemmParams& p, int row, int k) {
    long long place = static_cast<long long>(row / p.group_rows) * (p.k / p.group_columns) + k / p.group_columns;
    if (!p.power_of_two) return static_cast<const float*>(p.scale)[place];
    u32 exponent = static_cast<const u8*>(p.scale)[place];
    return __uint_as_float(exponent ? exponent << 23 : 1u << 22);  // 2^-127 is half of the smallest normal number
}

KF_DEVICE u32 e4m3_to_bf16(u32 pair) {
    u32 halves = ptx::unpack_e4m3(static_cast<u16>(pair));
    return ptx::pack_bf16(f16_low(halves), f16_high(halves));
}

KF_KERNEL(grouped_gemm, GroupedGemmParams, GEMM_THREADS) {
    KF_SHARED(shared);
    int g = warp_lane() / 4, j = warp_lane() % 4, row = blockIdx.x * GEMM_ROWS + g, first_token = blockIdx.y * 8 * TILES;
    const u8* upper = p.weights + static_cast<long long>(row) * p.k + 8 * j;
    const u8* lower = upper + 8ll * p.k;
    float total[TILES][4] = {};
#pragma unroll 2
    for (int k = GEMM_GROUP * warp_index(); k < p.k; k += GEMM_GROUP * GEMM_WARPS) {
        uint2 up = *reinterpret_cast<const uint2*>(upper + k), low = *reinterpret_cast<const uint2*>(lower + k);
        float up_scale = scale_of(p, row, k), low_scale = scale_of(p, row + 8, k);
        u32 first[4] = {e4m3_to_bf16(up.x), e4m3_to_bf16(low.x), e4m3_to_bf16(up.x >> 16), e4m3_to_bf16(low.x >> 16)};
        u32 second[4] = {e4m3_to_bf16(up.y), e4m3_to_bf16(low.y), e4m3_to_bf16(up.y >> 16), e4m3_to_bf16(low.y >> 16)};
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            int token = first_token + 8 * t + g;
            uint4 x = make_uint4(0, 0, 0, 0);
            if (token < p.tokens)
                x = *reinterpret_cast<const uint4*>(p.x + static_cast<long long>(token) * p.k + k + 8 * j);
            float c[4] = {};
            ptx::mma_bf16(c, first[0], first[1], first[2], first[3], x.x, x.y);
            ptx::mma_bf16(c, second[0], second[1], second[2], second[3], x.z, x.w);
            for (int i = 0; i < 4; i++) total[t][i] += c[i] * (i < 2 ? up_scale : low_scale);
        }
    }
    store_sums<TILES>(total, reinterpret_cast<float*>(shared), p.out, first_token, p.tokens, p.outputs);
}
