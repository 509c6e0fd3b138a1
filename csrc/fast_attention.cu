// Attention of the fast transformer: at most K positions, its cache starts anew every frame. One block per token, one
// warp per query head; a warp makes the keys and values of the new positions itself (its group's other warps do too, one
// of them stores), asks for the old ones at once, and keeps everything in registers.
#include <common/rotary.cuh>

constexpr int D = KF_HEAD_DIM;
constexpr int GROUP = KF_GROUP;
constexpr int HEADS = KF_HEADS;
constexpr int KV_HEADS = HEADS / GROUP;
constexpr int POSITIONS = KF_POSITIONS;  // K
constexpr int PER_LANE = D / 32;
constexpr int WIDTH = (HEADS + 2 * KV_HEADS) * D;
constexpr int FAST_ATTENTION_THREADS = 32 * HEADS;
static_assert(HEADS <= 32, "one warp per head");

struct FastAttentionParams {
    Product qkv;        // [B * tokens, WIDTH]
    const u16* q_norm;  // bf16 [D] or null
    const u16* k_norm;
    const float* rope;  // [K, D/2, 2]
    u16* keys;          // bf16 [B, K, KV_HEADS, D], of this layer
    u16* values;
    u16* out_bf16;      // [B * tokens, HEADS * D], or null and out_fp8 [B * tokens, 2, HEADS * D] with out_scale
    u8* out_fp8;
    float* out_scale;
    int first;          // position of the first token
    int tokens;         // 1 or 2
    float eps;
    float scale_log2;   // log2(e) / sqrt(D)
};

struct Cached {  // this lane's part of all positions of one kv head, pairs of bf16
    u32 key[POSITIONS][PER_LANE / 2];
    u32 value[POSITIONS][PER_LANE / 2];
};

KF_DEVICE long long place_of(int frame_row, int position, int kv_head) {
    return ((static_cast<long long>(frame_row) * POSITIONS + position) * KV_HEADS + kv_head) * D + warp_lane() * PER_LANE;
}

// One new key (rotated) or value of this kv head, as it will stand in the cache.
KF_DEVICE void make_pairs(const FastAttentionParams& p, int row, int head, const u16* norm, const float* rope_row,
                          u32 (&pairs)[PER_LANE / 2]) {
    float v[PER_LANE];
    load_head(p.qkv, row, WIDTH, head * D, v);
    if (rope_row) norm_and_rotate(v, norm, rope_row, p.eps);
    for (int i = 0; i < PER_LANE; i += 2) pairs[i / 2] = ptx::pack_bf16(v[i], v[i + 1]);
}

// Positions before `first` from the cache, the new ones up to `last` from the product.
KF_DEVICE void gather(const FastAttentionParams& p, int frame_row, int last, int kv_head, bool stores, Cached& cached) {
#pragma unroll
    for (int position = 0; position < POSITIONS; position++) {
        if (position > last) break;
        u32* keys = reinterpret_cast<u32*>(p.keys + place_of(frame_row, position, kv_head));
        u32* values = reinterpret_cast<u32*>(p.values + place_of(frame_row, position, kv_head));
        bool is_new = position >= p.first;
        if (is_new) {
            int row = frame_row * p.tokens + position - p.first;
            make_pairs(p, row, HEADS + kv_head, p.k_norm, p.rope + position * D, cached.key[position]);
            make_pairs(p, row, HEADS + KV_HEADS + kv_head, nullptr, nullptr, cached.value[position]);
        }
        for (int i = 0; i < PER_LANE / 2; i++) {
            if (!is_new) {
                cached.key[position][i] = keys[i];
                cached.value[position][i] = values[i];
            } else if (stores) {
                keys[i] = cached.key[position][i];
                values[i] = cached.value[position][i];
            }
        }
    }
}

KF_KERNEL(fast_attention, FastAttentionParams, FAST_ATTENTION_THREADS) {
    KF_SHARED(shared);
    float* scratch = reinterpret_cast<float*>(shared);
    int frame_row = blockIdx.x / p.tokens, token = blockIdx.x % p.tokens, last = p.first + token;
    int head = warp_index(), kv_head = head / GROUP;
    float q[PER_LANE];
    load_head(p.qkv, blockIdx.x, WIDTH, head * D, q);
    Cached cached;
    gather(p, frame_row, last, kv_head, head % GROUP == 0 && token == p.tokens - 1, cached);
    norm_and_rotate(q, p.q_norm, p.rope + last * D, p.eps);

    float score[POSITIONS], largest = -KF_INFINITY, total = 0.0f, out[PER_LANE] = {};
#pragma unroll
    for (int position = 0; position < POSITIONS; position++) {
        score[position] = 0.0f;
        if (position > last) continue;
        for (int i = 0; i < PER_LANE; i += 2) {
            u32 pair = cached.key[position][i / 2];
            score[position] += q[i] * bf16_low(pair) + q[i + 1] * bf16_high(pair);
        }
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
#pragma unroll
        for (int position = 0; position < POSITIONS; position++)
            score[position] += __shfl_xor_sync(ALL_LANES, score[position], mask);
#pragma unroll
    for (int position = 0; position < POSITIONS; position++)
        if (position <= last) largest = fmaxf(largest, score[position]);
#pragma unroll
    for (int position = 0; position < POSITIONS; position++) {
        if (position > last) continue;
        float weight = exp2f((score[position] - largest) * p.scale_log2);
        total += weight;
        for (int i = 0; i < PER_LANE; i += 2) {
            u32 pair = cached.value[position][i / 2];
            out[i] += weight * bf16_low(pair);
            out[i + 1] += weight * bf16_high(pair);
        }
    }
    float amax = 0.0f;
    for (int i = 0; i < PER_LANE; i++) {
        out[i] /= total;
        amax = fmaxf(amax, fabsf(out[i]));
    }
    long long row = blockIdx.x;
    int column = head * D + warp_lane() * PER_LANE;
    if (!p.out_fp8) {
        store_bf16(p.out_bf16 + row * HEADS * D + column, out);
        return;
    }
    float to_fp8 = fp8_scale(block_max<FAST_ATTENTION_THREADS>(amax, scratch), p.out_scale + row);
    u8* to = p.out_fp8 + row * 2 * HEADS * D + column;
    for (int i = 0; i < PER_LANE; i += 2) {
        u16 first, second;
        split_terms(out[i] * to_fp8, out[i + 1] * to_fp8, first, second);
        *reinterpret_cast<u16*>(to + i) = first;
        *reinterpret_cast<u16*>(to + HEADS * D + i) = second;
    }
}
