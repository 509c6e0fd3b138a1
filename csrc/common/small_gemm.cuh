// Products of few rows, weights first: a block makes 16 outputs of some tokens, its warps take the groups of 32 along K
// in turn, and their sums meet in shared memory, in a fixed order. Every weight byte is read once for each tile of tokens.
//
// Both operands may permute K alike: within a group, lane j of four takes the values 8j..8j+7, so that each operand is one
// load a lane, and hands them to the tensor core as if they stood where its layout wants them.
#pragma once

#include <common/numeric.cuh>

constexpr int GEMM_WARPS = 8, GEMM_THREADS = 32 * GEMM_WARPS, GEMM_ROWS = 16, GEMM_GROUP = 32;

// c: 16 rows by 8 tokens for each tile, as a tensor core leaves them. out bf16 [tokens, outputs].
template <int TILES>
KF_DEVICE void store_sums(const float (&c)[TILES][4], float* shared, u16* out, int first_token, int tokens, int outputs) {
    constexpr int WIDTH = 8 * TILES;
    float* mine = shared + warp_index() * GEMM_ROWS * WIDTH;
    int g = warp_lane() / 4, j = warp_lane() % 4;
#pragma unroll
    for (int t = 0; t < TILES; t++)
        for (int i = 0; i < 4; i++) mine[(g + i / 2 * 8) * WIDTH + 8 * t + 2 * j + i % 2] = c[t][i];
    KF_BLOCK_SYNC();
    for (int pair = threadIdx.x; pair < GEMM_ROWS / 2 * WIDTH; pair += GEMM_THREADS) {
        int row = pair % (GEMM_ROWS / 2) * 2, token = pair / (GEMM_ROWS / 2);
        if (first_token + token >= tokens) continue;
        float low = 0.0f, high = 0.0f;
        for (int w = 0; w < GEMM_WARPS; w++) {
            low += shared[(w * GEMM_ROWS + row) * WIDTH + token];
            high += shared[(w * GEMM_ROWS + row + 1) * WIDTH + token];
        }
        long long place = static_cast<long long>(first_token + token) * outputs + blockIdx.x * GEMM_ROWS + row;
        *reinterpret_cast<u32*>(out + place) = ptx::pack_bf16(low, high);
    }
}
