// One warp, 16 keys at a time, up to 8 queries of one kv head: scores, running softmax, weighted values, on tensor cores.
//
// The queries are rows 0..7 of a 16-row tile; rows 8..15 are zero and cost nothing that is not idle. They are the heads of
// one position's group, or of the groups of a few positions of one slot.
// Layouts as in attention.cu: keys [position, D]; values [position / 2, D, 2]. D is the head dim.
#pragma once

#include <common/numeric.cuh>

constexpr int KEY_BLOCK = 16;
constexpr int MAX_GROUP = 8;

struct Softmax {
    float largest = -KF_INFINITY;
    float total = 0.0f;  // this lane's share; the four lanes of a query hold the whole
};

// The A operand of the scores: the dims of this lane's query g, bf16 [D], or zeros where it is null.
template <int D>
KF_DEVICE void load_queries(const u16* query, u32 (&fragments)[D / 16][2]) {
    u32 j = warp_lane() % 4;
#pragma unroll
    for (int i = 0; i < D / 32; i++) {
        uint4 dims = make_uint4(0, 0, 0, 0);
        if (query) dims = *reinterpret_cast<const uint4*>(query + 32 * i + 8 * j);
        fragments[2 * i][0] = dims.x;
        fragments[2 * i][1] = dims.y;
        fragments[2 * i + 1][0] = dims.z;
        fragments[2 * i + 1][1] = dims.w;
    }
}

// Scores of 16 keys: lane (g, j) gets those of query g for keys 2j, 2j+1 and 8+2j, 8+2j+1.
template <int D>
KF_DEVICE void score_block(const u16* keys, const u32 (&q)[D / 16][2], float (&scores)[4]) {
    u32 g = warp_lane() / 4, j = warp_lane() % 4;
    uint4 k[2][D / 32];
#pragma unroll
    for (int tile = 0; tile < 2; tile++)
#pragma unroll
        for (int i = 0; i < D / 32; i++)
            k[tile][i] = *reinterpret_cast<const uint4*>(keys + (8 * tile + g) * D + 32 * i + 8 * j);
#pragma unroll
    for (int tile = 0; tile < 2; tile++) {
        float c0 = 0.0f, c1 = 0.0f;
#pragma unroll
        for (int i = 0; i < D / 32; i++) {
            ptx::mma_bf16_upper(c0, c1, q[2 * i][0], q[2 * i][1], k[tile][i].x, k[tile][i].y);
            ptx::mma_bf16_upper(c0, c1, q[2 * i + 1][0], q[2 * i + 1][1], k[tile][i].z, k[tile][i].w);
        }
        scores[2 * tile] = c0;
        scores[2 * tile + 1] = c1;
    }
}

// out += P V for 16 keys and TILES tiles of dims. Lane g of the B operand reads dims g * D/8 + first_tile .., so tile t
// of the output is dim g * D/8 + first_tile + t: lane (g, j) holds query g, dims of 2j and 2j+1.
template <int D, int TILES>
KF_DEVICE void add_values(const u16* values, const u32 (&weights)[2], int valid, int first_tile, float (&out)[TILES][2]) {
    u32 g = warp_lane() / 4, j = warp_lane() % 4;
#pragma unroll
    for (int t = 0; t < TILES; t += 4) {
        uint4 v[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int pair = 4 * half + j;
            v[half] = *reinterpret_cast<const uint4*>(values + (pair * D + g * (D / 8) + first_tile + t) * 2);
            // Positions past the end hold what an earlier owner left, perhaps not a number: 0 * NaN is NaN.
            u32 keep = 2 * pair + 1 < valid ? 0xffffffffu : 2 * pair < valid ? 0xffffu : 0u;
            v[half].x &= keep;
            v[half].y &= keep;
            v[half].z &= keep;
            v[half].w &= keep;
        }
        ptx::mma_bf16_upper(out[t][0], out[t][1], weights[0], weights[1], v[0].x, v[1].x);
        ptx::mma_bf16_upper(out[t + 1][0], out[t + 1][1], weights[0], weights[1], v[0].y, v[1].y);
        ptx::mma_bf16_upper(out[t + 2][0], out[t + 2][1], weights[0], weights[1], v[0].z, v[1].z);
        ptx::mma_bf16_upper(out[t + 3][0], out[t + 3][1], weights[0], weights[1], v[0].w, v[1].w);
    }
}

// One block of keys into the running softmax of each query. Of the block this lane's query sees the first `seen` keys
// (fewer than one: none), and the first `written` exist. scale_log2 = log2(e) / sqrt(D).
template <int D, int TILES>
KF_DEVICE void attend_block(const u16* keys, const u16* values, const u32 (&q)[D / 16][2], int seen, int written,
                            float scale_log2, int first_tile, Softmax& softmax, float (&out)[TILES][2]) {
    u32 j = warp_lane() % 4;
    float scores[4];
    score_block<D>(keys, q, scores);
    float largest = softmax.largest;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int key = 8 * (i / 2) + 2 * j + i % 2;
        scores[i] = key < seen ? scores[i] * scale_log2 : -KF_INFINITY;
        largest = fmaxf(largest, scores[i]);
    }
    for (int mask = 1; mask < 4; mask *= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, mask));
    // A query that has seen no key yet has nothing to compare with: infinity less infinity is not a number.
    float base = largest == -KF_INFINITY ? 0.0f : largest;
    float rescale = exp2f(softmax.largest - base);
    softmax.largest = largest;
    softmax.total *= rescale;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        out[t][0] *= rescale;
        out[t][1] *= rescale;
    }
    u32 weights[2];
#pragma unroll
    for (int tile = 0; tile < 2; tile++) {
        float w0 = exp2f(scores[2 * tile] - base), w1 = exp2f(scores[2 * tile + 1] - base);
        softmax.total += w0 + w1;
        weights[tile] = ptx::pack_bf16(w0, w1);
    }
    add_values<D, TILES>(values, weights, written, first_tile, out);
}

// What a warp has of query g into its place [D + 2]: its tiles' dims, then the largest score and the total.
template <int D, int TILES>
KF_DEVICE void store_part(float* place, bool exists, int first_tile, const Softmax& softmax, const float (&out)[TILES][2]) {
    u32 j = warp_lane() % 4;
    float total = softmax.total;
    for (int mask = 1; mask < 4; mask *= 2) total += __shfl_xor_sync(ALL_LANES, total, mask);
    if (!exists) return;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        place[2 * j * (D / 8) + first_tile + t] = out[t][0];
        place[(2 * j + 1) * (D / 8) + first_tile + t] = out[t][1];
    }
    if (j == 0) {
        place[D] = softmax.largest;
        place[D + 1] = total;
    }
}
