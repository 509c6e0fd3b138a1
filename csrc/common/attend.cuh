// One warp, 16 keys at a time, up to 8 queries of one kv head: scores, running softmax, weighted values, on tensor cores.
//
// The queries are rows 0..7 of a 16-row tile; rows 8..15 are zero and cost nothing that is not idle. They are the heads of
// one position's group, or of the groups of a few positions of one slot. D is the head dim.
#pragma once

#include <common/kv_cache.cuh>

constexpr int KEY_BLOCK = 16;
constexpr int MAX_GROUP = 8;

struct Softmax {
    float largest = -KF_INFINITY;
    float total = 0.0f;  // this lane's share; the four lanes of a query hold the whole
};

// The A operand of the scores: the dims of this lane's query g, 16 bits [D], or zeros where it is null.
template <int D>
KF_DEVICE void load_queries(const u16* query, u32 (&fragments)[D / 16][2]) {
#pragma unroll
    for (int i = 0; i < D / 32; i++) {
        uint4 dims = make_uint4(0, 0, 0, 0);
        if (query) dims = *query_quads<D>(query, i);
        fragments[2 * i][0] = dims.x;
        fragments[2 * i][1] = dims.y;
        fragments[2 * i + 1][0] = dims.z;
        fragments[2 * i + 1][1] = dims.w;
    }
}

// Scores of 16 keys: lane (g, j) gets those of query g for keys 2j, 2j+1 and 8+2j, 8+2j+1.
template <int D>
KF_DEVICE void score_block(const KvValue* keys, const u32 (&q)[D / 16][2], float (&scores)[4]) {
    u32 k[2][D / 16][2];
#pragma unroll
    for (int tile = 0; tile < 2; tile++) load_key<D>(keys + (8 * tile + warp_lane() / 4) * D, k[tile]);
#pragma unroll
    for (int tile = 0; tile < 2; tile++) {
        float c0 = 0.0f, c1 = 0.0f;
#pragma unroll
        for (int i = 0; i < D / 16; i++) multiply_upper(c0, c1, q[i][0], q[i][1], k[tile][i][0], k[tile][i][1]);
        scores[2 * tile] = c0;
        scores[2 * tile + 1] = c1;
    }
}

// out += P V for 16 keys and TILES tiles of dims. Lane g of the B operand reads dims g * D/8 + first_tile .., so tile t
// of the output is dim g * D/8 + first_tile + t: lane (g, j) holds query g, dims of 2j and 2j+1.
template <int D, int TILES>
KF_DEVICE void add_values(const KvValue* values, const u32 (&weights)[2], int written, int first_tile,
                          float (&out)[TILES][2]) {
    u32 g = warp_lane() / 4, j = warp_lane() % 4;
#pragma unroll
    for (int t = 0; t < TILES; t += 4) {
        u32 v[2][4];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int pair = 4 * half + j;
            load_values(values + (pair * D + g * (D / 8) + first_tile + t) * 2, written - 2 * pair, v[half]);
        }
#pragma unroll
        for (int d = 0; d < 4; d++)
            multiply_upper(out[t + d][0], out[t + d][1], weights[0], weights[1], v[0][d], v[1][d]);
    }
}

// One block of keys into the running softmax of each query. Of the block this lane's query sees the first `seen` keys
// (fewer than one: none), and the first `written` exist. scale_log2 = log2(e) / sqrt(D).
template <int D, int TILES>
KF_DEVICE void attend_block(const KvValue* keys, const KvValue* values, const u32 (&q)[D / 16][2], int seen, int written,
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
        weights[tile] = pack_weights(w0, w1);
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
