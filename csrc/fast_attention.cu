// Attention of the fast transformer: at most K positions, its cache starts anew every frame. One block per frame row,
// one warp per kv head; the heads of a group go together so that their sums overlap.
#include <common/rotary.cuh>

constexpr int D = KF_HEAD_DIM;
constexpr int GROUP = KF_GROUP;
constexpr int PER_LANE = D / 32;
static_assert(D % 64 == 0, "head_dim must be a multiple of 64");

struct FastAttentionParams {
    Product qkv;        // [B * tokens, (H + 2G) * D]
    const u16* q_norm;  // bf16 [D] or null
    const u16* k_norm;
    const float* rope;  // [K, D/2, 2]
    u16* keys;          // bf16 [B, K, G, D], of this layer
    u16* values;
    u16* out_bf16;      // [B * tokens, H * D], or null and out_fp8 with out_scale [B * tokens]
    u8* out_fp8;
    float* out_scale;
    int kv_heads;
    int positions;      // K
    int first;          // position of the first token
    int tokens;
    float eps;
    float scale_log2;   // log2(e) / sqrt(D)
};

constexpr int FAST_ATTENTION_THREADS = 256;

KF_DEVICE void append(const FastAttentionParams& p, int frame_row, int token, int kv_head) {
    int heads = GROUP * p.kv_heads, width = (heads + 2 * p.kv_heads) * D, row = frame_row * p.tokens + token;
    long long place = ((static_cast<long long>(frame_row) * p.positions + p.first + token) * p.kv_heads + kv_head) * D
                      + warp_lane() * PER_LANE;
    float v[PER_LANE];
    load_head(p.qkv, row, width, (heads + kv_head) * D, v);
    norm_and_rotate(v, p.k_norm, p.rope + (p.first + token) * D, p.eps);
    store_bf16(p.keys + place, v);
    load_head(p.qkv, row, width, (heads + p.kv_heads + kv_head) * D, v);
    store_bf16(p.values + place, v);
}

// The group's heads of one token over all positions up to its own -> out[GROUP][D] (this lane's part).
KF_DEVICE void attend(const FastAttentionParams& p, int frame_row, int token, int kv_head, float (&out)[GROUP][PER_LANE]) {
    int heads = GROUP * p.kv_heads, width = (heads + 2 * p.kv_heads) * D, row = frame_row * p.tokens + token;
    float q[GROUP][PER_LANE], largest[GROUP], total[GROUP];
    for (int h = 0; h < GROUP; h++) {
        load_head(p.qkv, row, width, (kv_head * GROUP + h) * D, q[h]);
        norm_and_rotate(q[h], p.q_norm, p.rope + (p.first + token) * D, p.eps);
        largest[h] = -KF_INFINITY;
        total[h] = 0.0f;
        for (int i = 0; i < PER_LANE; i++) out[h][i] = 0.0f;
    }
#pragma unroll 2
    for (int position = 0; position <= p.first + token; position++) {
        long long place = ((static_cast<long long>(frame_row) * p.positions + position) * p.kv_heads + kv_head) * D
                          + warp_lane() * PER_LANE;
        float score[GROUP], key[PER_LANE], value[PER_LANE];
        load_bf16(p.keys + place, key);
        load_bf16(p.values + place, value);
        for (int h = 0; h < GROUP; h++) {
            float dot = 0.0f;
            for (int i = 0; i < PER_LANE; i++) dot += q[h][i] * key[i];
            score[h] = dot;
        }
        for (int mask = 16; mask > 0; mask /= 2)
            for (int h = 0; h < GROUP; h++) score[h] += __shfl_xor_sync(ALL_LANES, score[h], mask);
        for (int h = 0; h < GROUP; h++) {
            float now = fmaxf(largest[h], score[h] * p.scale_log2);
            float rescale = exp2f(largest[h] - now), weight = exp2f(score[h] * p.scale_log2 - now);
            largest[h] = now;
            total[h] = total[h] * rescale + weight;
            for (int i = 0; i < PER_LANE; i++)
                out[h][i] = out[h][i] * rescale + weight * value[i];
        }
    }
    for (int h = 0; h < GROUP; h++)
        for (int i = 0; i < PER_LANE; i++) out[h][i] /= total[h];
}

KF_KERNEL(fast_attention, FastAttentionParams, FAST_ATTENTION_THREADS) {
    KF_SHARED(shared);
    float* scratch = reinterpret_cast<float*>(shared);
    float* values = scratch + 32;  // [H * D]
    int frame_row = blockIdx.x, width = GROUP * p.kv_heads * D;
    constexpr int WARPS = FAST_ATTENTION_THREADS / 32;
    for (int kv_head = warp_index(); kv_head < p.kv_heads; kv_head += WARPS)
        for (int token = 0; token < p.tokens; token++) append(p, frame_row, token, kv_head);
    __syncwarp();  // a warp reads only what its own lanes wrote
    for (int token = 0; token < p.tokens; token++) {
        float amax = 0.0f;
        for (int kv_head = warp_index(); kv_head < p.kv_heads; kv_head += WARPS) {
            float out[GROUP][PER_LANE];
            attend(p, frame_row, token, kv_head, out);
            for (int h = 0; h < GROUP; h++)
                for (int i = 0; i < PER_LANE; i++) {
                    values[(kv_head * GROUP + h) * D + warp_lane() * PER_LANE + i] = out[h][i];
                    amax = fmaxf(amax, fabsf(out[h][i]));
                }
        }
        amax = block_max<FAST_ATTENTION_THREADS>(amax, scratch);
        int row = frame_row * p.tokens + token;
        long long place = static_cast<long long>(row) * width;
        store_row<FAST_ATTENTION_THREADS>(values, width, amax, p.out_bf16 + place,
                                          p.out_fp8 ? p.out_fp8 + place : nullptr, p.out_scale + row);
        __syncthreads();
    }
}
