// Attention of the slow transformer over the slots' KV, for rows that each stand at one position of one slot.
//
// Decode has one row per slot; prefill has many rows of one slot, and works because `prepare` writes the keys and values
// of all rows before `attend` reads any. Three launches: prepare (q/k norm, RoPE, append), attend (keys split over
// blocks and warps, tensor cores) or attend_prompt (rows of one slot, which share what they read), combine (join the
// splits, convert for the output projection).
//
// Layouts (G kv heads, S positions, D = KF_HEAD_DIM): keys [slots, G, S, D]; values [slots, G, S/2, D, 2]
// (common/kv_cache.cuh).
#include <common/attend.cuh>

constexpr int D = KF_HEAD_DIM;
constexpr int PER_LANE = D / 32;
static_assert(D % 64 == 0, "head_dim must be a multiple of 64");

struct PrepareParams {
    Product qkv;            // [B, (H + 2G) * D]
    const u16* q_norm;      // bf16 [D], or null: no norm
    const u16* k_norm;
    const float* rope;      // [positions, D/2, 2]: cos, sin
    const int* row_slot;    // [B]
    const int* row_position;
    u16* q;                 // [B, H, D], bf16 or fp16 (common/kv_cache.cuh)
    KvValue* keys;
    KvValue* values;
    int heads;
    int kv_heads;
    int context;            // S
    float eps;
};

constexpr int PREPARE_THREADS = 256;

// Grid (rows, heads in eights): one warp per head.
KF_KERNEL(attention_prepare, PrepareParams, PREPARE_THREADS) {
    int row = blockIdx.x, width = (p.heads + 2 * p.kv_heads) * D;
    int position = p.row_position[row];
    long long slot = static_cast<long long>(p.row_slot[row]) * p.kv_heads * p.context * D;
    const float* rope_row = p.rope + static_cast<long long>(position) * D;
    int first = warp_lane() * PER_LANE;
    int head = blockIdx.y * (PREPARE_THREADS / 32) + warp_index();
    if (head < p.heads + 2 * p.kv_heads) {
        float v[PER_LANE];
        load_head(p.qkv, row, width, head * D, v);
        if (head < p.heads) {
            norm_and_rotate(v, p.q_norm, rope_row, p.eps);
            store_query(p.q + (static_cast<long long>(row) * p.heads + head) * D + first, v);
        } else if (head < p.heads + p.kv_heads) {
            norm_and_rotate(v, p.k_norm, rope_row, p.eps);
            store_key(p.keys + slot + (static_cast<long long>(head - p.heads) * p.context + position) * D + first, v);
        } else {
            long long group = static_cast<long long>(head - p.heads - p.kv_heads) * p.context * D;
            KvValue* value = p.values + slot + group + static_cast<long long>(position / 2) * D * 2 + position % 2;
            for (int i = 0; i < PER_LANE; i++) value[2 * (first + i)] = pack_value(v[i]);
        }
    }
}

struct AttendParams {
    const u16* q;
    const KvValue* keys;
    const KvValue* values;
    const int* row_slot;
    const int* row_position;
    float* partial;   // [B, splits, H, D], not normalised
    float* stats;     // [B, splits, H, 2]: the largest score (base 2), the sum of 2^(score - largest)
    int heads;
    int kv_heads;
    int context;
    int splits;
    int rows;         // B
    float scale_log2; // log2(e) / sqrt(D)
};

constexpr int ATTEND_WARPS = 4;
constexpr int ATTEND_THREADS = 32 * ATTEND_WARPS;

// Three blocks on a multiprocessor keep about 100 KB of loads in flight, which is what the memory needs.
KF_KERNEL_RESIDENT(attention_attend, AttendParams, ATTEND_THREADS, 3) {
    KF_SHARED(shared);
    int split = blockIdx.x, kv_head = blockIdx.y, row = blockIdx.z, group = p.heads / p.kv_heads;
    int length = p.row_position[row] + 1, blocks = (length + KEY_BLOCK - 1) / KEY_BLOCK;
    long long base = (static_cast<long long>(p.row_slot[row]) * p.kv_heads + kv_head) * p.context * D;
    u32 q[D / 16][2];
    int head = kv_head * group + warp_lane() / 4;
    load_queries<D>(warp_lane() / 4 < group ? p.q + (static_cast<long long>(row) * p.heads + head) * D : nullptr, q);
    Softmax softmax;
    float out[D / 8][2] = {};
    int end = blocks * (split + 1) / p.splits;
    for (int block = blocks * split / p.splits + warp_index(); block < end; block += ATTEND_WARPS) {
        long long start = base + static_cast<long long>(block) * KEY_BLOCK * D;
        int left = length - block * KEY_BLOCK;
        attend_block<D>(p.keys + start, p.values + start, q, left, left, p.scale_log2, 0, softmax, out);
    }
    // Join the warps: [warp][head][D + largest, total].
    store_part<D>(reinterpret_cast<float*>(shared) + (warp_index() * MAX_GROUP + warp_lane() / 4) * (D + 2), true, 0,
                  softmax, out);
    __syncthreads();
    const float* all = reinterpret_cast<const float*>(shared);
    for (int i = threadIdx.x; i < group * D; i += ATTEND_THREADS) {
        int head = i / D, dim = i % D;
        float largest = -KF_INFINITY, sum = 0.0f, joined = 0.0f;
        for (int w = 0; w < ATTEND_WARPS; w++) largest = fmaxf(largest, all[(w * MAX_GROUP + head) * (D + 2) + D]);
        for (int w = 0; w < ATTEND_WARPS; w++) {
            const float* part = all + (w * MAX_GROUP + head) * (D + 2);
            if (part[D + 1] == 0.0f) continue;
            float weight = exp2f(part[D] - largest);
            joined += weight * part[dim];
            sum += weight * part[D + 1];
        }
        long long place = (static_cast<long long>(row) * p.splits + split) * p.heads + kv_head * group + head;
        p.partial[place * D + dim] = joined;
        if (dim == 0) {
            p.stats[2 * place] = largest;
            p.stats[2 * place + 1] = sum;
        }
    }
}

// Rows of one slot, the first row's: a warp has the heads of a few neighbouring rows (8 / group), and the warps of a block
// walk the same keys, so that they come from memory once and then from L1. A row of another slot gets a value that means
// nothing. Grid (splits, kv heads, rows in blocks).
KF_KERNEL_RESIDENT(attention_attend_prompt, AttendParams, ATTEND_THREADS, 3) {
    KF_SHARED(shared);
    int split = blockIdx.x, kv_head = blockIdx.y, group = p.heads / p.kv_heads, rows_of_warp = MAX_GROUP / group;
    int first = (blockIdx.z * ATTEND_WARPS + warp_index()) * rows_of_warp;
    int mine = warp_lane() / 4, row = first + mine / group, head = kv_head * group + mine % group;
    bool exists = mine < rows_of_warp * group && row < p.rows;
    int length = exists ? p.row_position[row] + 1 : 0, written = 0;
    for (int r = first; r < min(first + rows_of_warp, p.rows); r++) written = max(written, p.row_position[r] + 1);
    long long base = (static_cast<long long>(p.row_slot[0]) * p.kv_heads + kv_head) * p.context * D;
    u32 q[D / 16][2];
    load_queries<D>(exists ? p.q + (static_cast<long long>(row) * p.heads + head) * D : nullptr, q);
    Softmax softmax;
    float out[D / 8][2] = {};
    int blocks = (written + KEY_BLOCK - 1) / KEY_BLOCK, end = blocks * (split + 1) / p.splits;
    for (int block = blocks * split / p.splits; block < end; block++) {
        long long start = base + static_cast<long long>(block) * KEY_BLOCK * D;
        int before = block * KEY_BLOCK;
        attend_block<D>(p.keys + start, p.values + start, q, length - before, written - before, p.scale_log2, 0, softmax,
                        out);
    }
    // Through shared memory, [warp][query][D + largest, total], so that the stores to memory are whole lines.
    float* parts = reinterpret_cast<float*>(shared) + warp_index() * MAX_GROUP * (D + 2);
    store_part<D>(parts + mine * (D + 2), true, 0, softmax, out);
    __syncwarp();
    int held = min(rows_of_warp, p.rows - first) * group;
    for (int i = warp_lane(); i < held * D; i += 32) {
        int query = i / D, dim = i % D;
        long long place = (static_cast<long long>(first + query / group) * p.splits + split) * p.heads + kv_head * group
                          + query % group;
        p.partial[place * D + dim] = parts[query * (D + 2) + dim];
        if (dim < 2) p.stats[2 * place + dim] = parts[query * (D + 2) + D + dim];
    }
}

struct CombineParams {
    const float* partial;
    const float* stats;
    u16* out_bf16;    // [B, H * D], or null and out_fp8 [B, 2, H * D] with out_scale [B]
    u8* out_fp8;
    float* out_scale;
    int heads;
    int splits;
};

constexpr int COMBINE_THREADS = 1024;
constexpr int SPLITS_AHEAD = 6;

// A thread makes four neighbouring values, which are of one head, and reads several splits before it waits for one. Shared:
// reduce [32].
KF_KERNEL(attention_combine, CombineParams, COMBINE_THREADS) {
    KF_SHARED(shared);
    long long row = blockIdx.x;
    int width = p.heads * D, i = 4 * threadIdx.x;
    bool inside = i < width;
    const float2* stats = reinterpret_cast<const float2*>(p.stats) + row * p.splits * p.heads + i / D;
    const float* partial = p.partial + row * p.splits * width + i;
    float largest = -3.0e38f, total = 0.0f;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int first = 0; inside && first < p.splits; first += SPLITS_AHEAD) {
        float2 stat[SPLITS_AHEAD];
        float4 part[SPLITS_AHEAD];
#pragma unroll
        for (int s = 0; s < SPLITS_AHEAD; s++) {
            bool exists = first + s < p.splits;
            long long split = first + s;
            stat[s] = exists ? stats[split * p.heads] : make_float2(-KF_INFINITY, 0.0f);
            part[s] = exists ? *reinterpret_cast<const float4*>(partial + split * width) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        float before = largest;
#pragma unroll
        for (int s = 0; s < SPLITS_AHEAD; s++) largest = fmaxf(largest, stat[s].x);
        sum = scaled(sum, exp2f(before - largest));
        total *= exp2f(before - largest);
#pragma unroll
        for (int s = 0; s < SPLITS_AHEAD; s++) {
            // A split without keys has a largest score of -infinity, hence weight 0.
            float weight = exp2f(stat[s].x - largest);
            total += weight * stat[s].y;
            sum = make_float4(sum.x + weight * part[s].x, sum.y + weight * part[s].y, sum.z + weight * part[s].z,
                              sum.w + weight * part[s].w);
        }
    }
    if (inside) sum = scaled(sum, 1.0f / total);
    float to_fp8 = 0.0f;
    if (p.out_fp8)
        to_fp8 = fp8_scale(block_max<COMBINE_THREADS>(largest_of(sum), reinterpret_cast<float*>(shared)), p.out_scale + row);
    if (inside) store_quad(sum, row, width, i, p.out_bf16, p.out_fp8, to_fp8);
}
