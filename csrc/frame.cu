// A whole frame for a few slots in one persistent kernel: slow transformer, semantic token, fast transformer over the
// codebooks, the slots' books. It exists because at small batches a frame is 7.4 GB of weights and some 350 dependent
// steps, and between separate kernels the memory stands idle.
//
// Every block owns a slice of each product's outputs (so its weights are one stream in memory, read in order by a
// producer warp that runs ahead across steps: common/weight_ring.cuh) and of the residual. Steps meet through tagged
// words (common/exchange.cuh). Weights are E4M3 with one scale per output, activations fp16, sums fp32; the RMSNorm
// weights are folded into the products, and a row's 1/rms is applied to the sums, so a product starts on raw values.
//
// Products: the batch rows (at most 8) are rows of the A operand, 8 weight rows are the columns of B. A warp takes a
// slice of K, keeps its A fragments in registers, and adds its part of each output in shared memory.
#define KF_BLOCK_SYNC() ptx::named_barrier(1, CONSUMERS)
#define KF_SAMPLER_THREADS CONSUMERS
constexpr int WARPS = KF_WARPS;
constexpr int CONSUMERS = 32 * WARPS;

#include <common/attend.cuh>
#include <common/exchange.cuh>
#include <common/rotary.cuh>
#include <common/slot.cuh>
#include <common/weight_ring.cuh>

constexpr int BLOCKS = KF_BLOCKS, BATCH = KF_BATCH, STAGES = KF_STAGES, STAGE_BYTES = KF_STAGE_BYTES;
constexpr int DIM = KF_DIM, HEADS = KF_HEADS, KV_HEADS = KF_KV_HEADS, D = KF_HEAD_DIM, FFN = KF_FFN;
constexpr int SLOW_LAYERS = KF_SLOW_LAYERS, FAST_LAYERS = KF_FAST_LAYERS;
constexpr int CODES = KF_CODES, RESIDUALS = KF_RESIDUALS, CODEBOOKS = KF_CODEBOOKS;

constexpr int GROUP = HEADS / KV_HEADS, Q_WIDTH = HEADS * D, QKV_WIDTH = (HEADS + 2 * KV_HEADS) * D;
constexpr int PER_LANE = D / 32;
constexpr int MAX_ROWS = 2 * BATCH;  // the first fast pass has two positions per slot
constexpr int SPLITS = BLOCKS / (BATCH * KV_HEADS);
constexpr int SLOTS = 6;             // chunks whose sums wait in shared memory
constexpr int SCALES_BYTES = 32;     // a chunk ends with 8 fp32 scales
static_assert(MAX_ROWS <= 8, "the batch rows are the upper half of a tile");
static_assert(CONSUMERS == GROUP * D, "one thread per output of a kv head's group in the combine step");
static_assert(SPLITS >= 1 && SPLITS <= 16 && (SPLITS & (SPLITS - 1)) == 0 && SPLITS * BATCH * KV_HEADS == BLOCKS,
              "the attention units must be as many as the blocks");

template <int rows, int chunk_rows, int k, int parts, bool half>
struct Product8 {
    static constexpr int ROWS = rows;              // outputs of one block
    static constexpr int CHUNK_ROWS = chunk_rows;  // of one chunk
    static constexpr int STEPS = k / (16 * WARPS * parts);  // of a warp in one part of K
    static constexpr int PARTS = parts;
    static constexpr bool HALF = half;             // fp16 weights
    static constexpr int GROUPS = rows / chunk_rows;
    static constexpr int LANE_BYTES = half ? 8 : 4;
    static constexpr int WEIGHT_BYTES = chunk_rows * k / parts * (half ? 2 : 1);
    static constexpr int CHUNK_BYTES = WEIGHT_BYTES + SCALES_BYTES;
    static constexpr int CHUNKS = GROUPS * parts;
    static constexpr long long BYTES = static_cast<long long>(CHUNKS) * CHUNK_BYTES;
    static_assert(rows % chunk_rows == 0 && chunk_rows <= 8, "whole chunks");
    static_assert(STEPS * 16 * WARPS * parts == k, "whole steps");
    static_assert(parts == 1 || GROUPS <= SLOTS, "sums of several parts stay in their slots");
    static_assert(CHUNK_BYTES <= STAGE_BYTES && CHUNK_BYTES % 16 == 0, "a chunk fits a stage");
};

using QkvProduct = Product8<QKV_WIDTH / BLOCKS, KF_QKV_ROWS, DIM, KF_QKV_PARTS, false>;
using OutProduct = Product8<DIM / BLOCKS, KF_OUT_ROWS, Q_WIDTH, KF_OUT_PARTS, false>;
using GateUpProduct = Product8<2 * FFN / BLOCKS, KF_GATE_UP_ROWS, DIM, KF_GATE_UP_PARTS, false>;
using DownProduct = Product8<DIM / BLOCKS, KF_DOWN_ROWS, FFN, KF_DOWN_PARTS, false>;
using SlowHead = Product8<CODES / BLOCKS + KF_SLOW_HEAD_ROWS, KF_SLOW_HEAD_ROWS, DIM, 1, true>;
using FastHead = Product8<RESIDUALS / BLOCKS, KF_FAST_HEAD_ROWS, DIM, 1, true>;
constexpr int OWN = DIM / BLOCKS;  // residual elements of a block, per row
constexpr long long LAYER_BYTES = QkvProduct::BYTES + OutProduct::BYTES + GateUpProduct::BYTES + DownProduct::BYTES;

// The exchange, in words.
constexpr int LOGIT_WORDS = CODES + 8;
constexpr int PART_WORDS = GROUP * (D + 2);
constexpr int X_AT = 0;
constexpr int QKV_AT = X_AT + MAX_ROWS * DIM / 2;
constexpr int ATTENDED_AT = QKV_AT + MAX_ROWS * QKV_WIDTH / 2;
constexpr int GATED_AT = ATTENDED_AT + MAX_ROWS * Q_WIDTH / 2;
constexpr int PART_AT = GATED_AT + MAX_ROWS * FFN / 2;
constexpr int LOGITS_AT = PART_AT + BLOCKS * PART_WORDS;
constexpr int CODE_AT = LOGITS_AT + BATCH * LOGIT_WORDS;
constexpr int EXCHANGE_WORDS = CODE_AT + BATCH;
static_assert(EXCHANGE_WORDS == KF_EXCHANGE_WORDS, "the caller's buffer must be as long");

struct FrameParams {
    SlotState state;
    const int* row_slot;             // [BATCH]
    const u8* slow_weights;          // [BLOCKS, SLOW_LAYERS * LAYER_BYTES + SlowHead::BYTES]
    const u8* fast_weights;          // [BLOCKS, FAST_LAYERS * LAYER_BYTES + FastHead::BYTES]
    u64* exchange;                   // [EXCHANGE_WORDS], zero at first
    u32* epoch;                      // last tag used, zero at first
    const u16* embeddings;           // bf16 [V, DIM]
    const u16* codebook_embeddings;  // bf16 [CODEBOOKS * CODES, DIM]
    const u16* fast_embeddings;      // bf16 [CODES, DIM]
    const u16* q_norms;              // bf16 [SLOW_LAYERS, D]
    const u16* k_norms;
    const u16* slow_norm;            // bf16 [DIM]
    const float* slow_rope;          // [positions, D/2, 2]
    const float* fast_rope;
    KvValue* keys;                   // [SLOW_LAYERS, slots, KV_HEADS, context, D]
    KvValue* values;                 // [SLOW_LAYERS, slots, KV_HEADS, context/2, D, 2]
    u8* ended;                       // [BATCH]
    u8* finite;
    long long layer_values;          // of one layer of keys
    int context;
    int semantic_begin;
    float spoken_scale;
    float slow_eps;
    float fast_eps;
    float scale_log2;                // log2(e) / sqrt(D)
#ifdef KF_TRACE
    long long* trace;                // [BLOCKS, KF_TRACE]
#endif
};

constexpr int SUMS = SLOTS * WARPS * MAX_ROWS * 8;
constexpr int PARTS_FLOATS = WARPS / 2 * PART_WORDS;
constexpr int SAMPLER_FLOATS = (sizeof(SamplerScratch) + 3) / 4 + LOGIT_WORDS;
constexpr int SCRATCH_FLOATS = PARTS_FLOATS > SAMPLER_FLOATS ? PARTS_FLOATS : SAMPLER_FLOATS;

struct Shared {                         // what is read 16 bytes at a time comes first
    u16 q[2][GROUP][D];                 // of up to two tokens: bf16, or what suits the slow transformer's keys
    u16 fast_keys[FAST_LAYERS][CODEBOOKS][D];
    u16 fast_values[FAST_LAYERS][CODEBOOKS][D];
    float sums[2][SUMS];                // [slot][warp][row][8], two sets in turn
    float squares[2][WARPS][MAX_ROWS];  // of a product's input, per warp
    float x_slow[BATCH][OWN];
    float x_fast[MAX_ROWS][OWN];
    float scratch[SCRATCH_FLOATS];      // attention's parts, or the sampler's logits
    int row_slot[BATCH];
    int position[BATCH];
    int codes[CODEBOOKS];               // of this block's row, where it samples one
};

using Ring = WeightRing<STAGES, STAGE_BYTES, KF_IN_FLIGHT>;

struct Frame {  // what a consumer thread carries along
    const FrameParams& p;
    Shared& shared;
    Ring ring;
    u32 tag;         // the last one given out
    int sums_set = 0;
    int squares_set = 0;
#ifdef KF_TRACE
    int marks = 0;
#endif

    // For loadtest/micro/trace.py: the clock at a step's landmarks, of one thread of each block.
    KF_DEVICE void mark() {
#ifdef KF_TRACE
        if (threadIdx.x == 0) p.trace[blockIdx.x * KF_TRACE + marks++] = clock64();
#endif
    }

    KF_DEVICE u64* words(int at, int row, int width) { return p.exchange + at + row * width; }
};

// ---- products -------------------------------------------------------------------------------------------------

template <class P>
KF_DEVICE void multiply_chunk(Frame& f, int slot, bool adds, int rows, const u32 (&a)[P::STEPS][2]) {
    const u8* stage = f.ring.take();
    u32 g = warp_lane() / 4, j = warp_lane() % 4;
    const u8* mine = stage + warp_index() * (P::CHUNK_ROWS * 4 * P::STEPS * P::LANE_BYTES);
    bool holds = g < P::CHUNK_ROWS;
    float even[4] = {}, odd[4] = {};
#pragma unroll
    for (int s = 0; s < P::STEPS; s += 2) {
        u32 first[4] = {a[s][0], 0, a[s][1], 0};
        bool has_second = s + 1 < P::STEPS;
        int lanes = has_second ? 2 : 1;  // steps that stand together
        const u8* at = mine + (s * P::CHUNK_ROWS * 4 + warp_lane() * lanes) * P::LANE_BYTES;
        u32 w[4] = {};
        if constexpr (P::HALF) {
            if (holds && has_second) {
                uint4 v = *reinterpret_cast<const uint4*>(at);
                w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
            } else if (holds) {
                uint2 v = *reinterpret_cast<const uint2*>(at);
                w[0] = v.x, w[1] = v.y;
            }
        } else {
            uint2 v = make_uint2(0, 0);
            if (holds && has_second) v = *reinterpret_cast<const uint2*>(at);
            else if (holds) v.x = *reinterpret_cast<const u32*>(at);
            w[0] = ptx::unpack_e4m3(static_cast<u16>(v.x));
            w[1] = ptx::unpack_e4m3(static_cast<u16>(v.x >> 16));
            w[2] = ptx::unpack_e4m3(static_cast<u16>(v.y));
            w[3] = ptx::unpack_e4m3(static_cast<u16>(v.y >> 16));
        }
        ptx::mma_f16(even, first, w[0], w[1]);
        if (has_second) {
            u32 second[4] = {a[s + 1 < P::STEPS ? s + 1 : s][0], 0, a[s + 1 < P::STEPS ? s + 1 : s][1], 0};
            ptx::mma_f16(odd, second, w[2], w[3]);
        }
    }
    float2 scale = reinterpret_cast<const float2*>(stage + P::WEIGHT_BYTES)[j];
    if (g < rows && 2 * j < P::CHUNK_ROWS) {
        float2* sum = reinterpret_cast<float2*>(
            f.shared.sums[f.sums_set] + ((slot * WARPS + warp_index()) * MAX_ROWS + g) * 8 + 2 * j);
        float2 before = adds ? *sum : make_float2(0.0f, 0.0f);
        *sum = make_float2(before.x + (even[0] + odd[0]) * scale.x, before.y + (even[1] + odd[1]) * scale.y);
    }
    f.ring.release();
}

// The finished sum of one of the block's outputs, from the warps' parts in a fixed order.
template <class P>
KF_DEVICE float sum_of(const Frame& f, int first_group, int output, int row) {
    const float* at = f.shared.sums[f.sums_set] + ((output / P::CHUNK_ROWS - first_group) * WARPS * MAX_ROWS + row) * 8
                      + output % P::CHUNK_ROWS;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) total += at[w * MAX_ROWS * 8];
    return total;
}

// 1 / rms of a row of the current product's input.
KF_DEVICE float inverse_rms(const Frame& f, int row, float eps) {
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) total += f.shared.squares[f.squares_set][w][row];
    return rsqrtf(total / DIM + eps);
}

template <int STEPS>
KF_DEVICE void store_squares(Frame& f, const u32 (&a)[STEPS][2]) {
    float squares = 0.0f;
#pragma unroll
    for (int s = 0; s < STEPS; s++)
        for (int i = 0; i < 2; i++) squares += f16_low(a[s][i]) * f16_low(a[s][i]) + f16_high(a[s][i]) * f16_high(a[s][i]);
    squares += __shfl_xor_sync(ALL_LANES, squares, 1);
    squares += __shfl_xor_sync(ALL_LANES, squares, 2);
    if (warp_lane() % 4 == 0 && warp_lane() / 4 < MAX_ROWS)
        f.shared.squares[f.squares_set][warp_index()][warp_lane() / 4] = squares;
}

// Where this lane's values of K begin in one part: steps are 16 apart, four values each.
template <class P>
KF_DEVICE int first_k(int part) { return (part * WARPS + warp_index()) * P::STEPS * 16 + 4 * (warp_lane() % 4); }

// load(part, a) fills this lane's A fragments; store(first output, outputs) is called by all threads when so many of the
// block's outputs are summed. `squares`: the input's row norms are wanted.
template <class P, bool squares, class Load, class Store>
KF_DEVICE void product(Frame& f, int rows, Load load, Store store) {
    if (squares) f.squares_set ^= 1;
#pragma unroll
    for (int part = 0; part < P::PARTS; part++) {
        u32 a[P::STEPS][2] = {};
        f.mark();
        load(part, a);
        __syncwarp();
        f.mark();
        if (squares) store_squares(f, a);
        for (int group = 0; group < P::GROUPS; group += SLOTS) {
            int groups = min(SLOTS, P::GROUPS - group);
            for (int i = 0; i < groups; i++) multiply_chunk<P>(f, i, part > 0, rows, a);
            f.mark();
            if (part + 1 < P::PARTS) continue;
            KF_BLOCK_SYNC();
            f.mark();
            store(group * P::CHUNK_ROWS, groups * P::CHUNK_ROWS);
            f.sums_set ^= 1;
            f.mark();
        }
    }
}

// A fragments from the exchange: row g of `width` words.
template <class P>
KF_DEVICE void load_words(Frame& f, int at, int width, int rows, u32 tag, int part, u32 (&a)[P::STEPS][2]) {
    int g = warp_lane() / 4;
    if (g < rows) wait_pairs<P::STEPS>(f.words(at, g, width) + first_k<P>(part) / 2, 8, tag, a);
}

// A fragments from a row of a bf16 table.
template <class P>
KF_DEVICE void load_table(const u16* row, int part, u32 (&a)[P::STEPS][2]) {
#pragma unroll
    for (int s = 0; s < P::STEPS; s++) {
        uint2 v = *reinterpret_cast<const uint2*>(row + first_k<P>(part) + 16 * s);
        a[s][0] = pack_f16_clamped(bf16_low(v.x), bf16_high(v.x));
        a[s][1] = pack_f16_clamped(bf16_low(v.y), bf16_high(v.y));
    }
}

// ---- what follows a product --------------------------------------------------------------------------------------

// Pairs of outputs, scaled by the row's 1 / rms, to the exchange.
template <class P>
KF_DEVICE void store_pairs(Frame& f, int first, int outputs, int rows, int at, int width, u32 tag, float eps) {
    for (int i = threadIdx.x; i < outputs / 2 * rows; i += CONSUMERS) {
        int row = i / (outputs / 2), output = first + i % (outputs / 2) * 2;
        float inverse = inverse_rms(f, row, eps);
        u32 pair = pack_f16_clamped(sum_of<P>(f, first / P::CHUNK_ROWS, output, row) * inverse,
                                    sum_of<P>(f, first / P::CHUNK_ROWS, output + 1, row) * inverse);
        ptx::store_word(f.words(at, row, width) + (blockIdx.x * P::ROWS + output) / 2, pair, tag);
    }
}

// silu(gate) * up: gates and ups are neighbours, so four sums make two values, one word.
KF_DEVICE void store_gated(Frame& f, int first, int outputs, int rows, u32 tag, float eps) {
    using P = GateUpProduct;
    for (int i = threadIdx.x; i < outputs / 4 * rows; i += CONSUMERS) {
        int row = i / (outputs / 4), output = first + i % (outputs / 4) * 4, group = first / P::CHUNK_ROWS;
        float inverse = inverse_rms(f, row, eps), v[4];
        for (int n = 0; n < 4; n++) v[n] = sum_of<P>(f, group, output + n, row) * inverse;
        u32 pair = pack_f16_clamped(silu(v[0]) * v[1], silu(v[2]) * v[3]);
        ptx::store_word(f.words(GATED_AT, row, FFN / 2) + (blockIdx.x * P::ROWS / 2 + output / 2) / 2, pair, tag);
    }
}

// The residual takes the sums; its new value goes to everybody.
template <class P>
KF_DEVICE void store_residual(Frame& f, int rows, float (*x)[OWN], u32 tag) {
    for (int i = threadIdx.x; i < OWN / 2 * rows; i += CONSUMERS) {
        int row = i / (OWN / 2), output = i % (OWN / 2) * 2;
        float low = x[row][output] + sum_of<P>(f, 0, output, row);
        float high = x[row][output + 1] + sum_of<P>(f, 0, output + 1, row);
        x[row][output] = low;
        x[row][output + 1] = high;
        ptx::store_word(f.words(X_AT, row, DIM / 2) + (blockIdx.x * OWN + output) / 2, pack_f16_clamped(low, high), tag);
    }
}

// Output projection and feed-forward of a layer: `attended_tag` names the attention's words; returns x's new tag.
KF_DEVICE u32 finish_layer(Frame& f, int rows, float (*x)[OWN], u32 attended_tag, float eps) {
    u32 x_tag = ++f.tag;
    product<OutProduct, false>(
        f, rows,
        [&](int part, u32 (&a)[OutProduct::STEPS][2]) {
            load_words<OutProduct>(f, ATTENDED_AT, Q_WIDTH / 2, rows, attended_tag, part, a);
        },
        [&](int, int) { store_residual<OutProduct>(f, rows, x, x_tag); });
    u32 gated_tag = ++f.tag;
    product<GateUpProduct, true>(
        f, rows,
        [&](int part, u32 (&a)[GateUpProduct::STEPS][2]) {
            load_words<GateUpProduct>(f, X_AT, DIM / 2, rows, x_tag, part, a);
        },
        [&](int first, int outputs) { store_gated(f, first, outputs, rows, gated_tag, eps); });
    u32 next_tag = ++f.tag;
    product<DownProduct, false>(
        f, rows,
        [&](int part, u32 (&a)[DownProduct::STEPS][2]) {
            load_words<DownProduct>(f, GATED_AT, FFN / 2, rows, gated_tag, part, a);
        },
        [&](int, int) { store_residual<DownProduct>(f, rows, x, next_tag); });
    return next_tag;
}

// ---- attention --------------------------------------------------------------------------------------------------

// This lane's part of a head from the exchange.
KF_DEVICE void load_head_words(Frame& f, int row, int column, u32 tag, float (&v)[PER_LANE]) {
    const u64* words = f.words(QKV_AT, row, QKV_WIDTH / 2) + (column + static_cast<int>(warp_lane()) * PER_LANE) / 2;
    for (int i = 0; i < PER_LANE; i += 2) {
        u32 pair = wait_word(words + i / 2, tag);
        v[i] = f16_low(pair);
        v[i + 1] = f16_high(pair);
    }
}

// Queries, key and value of the unit's token: normed, rotated; the owner of the token's block of keys stores them.
KF_DEVICE void prepare_slow(Frame& f, int layer, int row, int kv_head, bool owner, u32 tag) {
    int position = f.shared.position[row], first = warp_lane() * PER_LANE;
    const float* rope_row = f.p.slow_rope + static_cast<long long>(position) * D;
    long long base = layer * f.p.layer_values
                     + (static_cast<long long>(f.shared.row_slot[row]) * KV_HEADS + kv_head) * f.p.context * D;
    for (int role = warp_index(); role < GROUP + 2; role += WARPS) {
        float v[PER_LANE];
        if (role < GROUP) {
            load_head_words(f, row, (kv_head * GROUP + role) * D, tag, v);
            norm_and_rotate(v, f.p.q_norms + layer * D, rope_row, f.p.slow_eps);
            store_query(&f.shared.q[0][role][first], v);
        } else if (owner && role == GROUP) {
            load_head_words(f, row, (HEADS + kv_head) * D, tag, v);
            norm_and_rotate(v, f.p.k_norms + layer * D, rope_row, f.p.slow_eps);
            store_key(f.p.keys + base + static_cast<long long>(position) * D + first, v);
        } else if (owner) {
            load_head_words(f, row, (HEADS + KV_HEADS + kv_head) * D, tag, v);
            KvValue* value = f.p.values + base + static_cast<long long>(position / 2) * D * 2 + position % 2;
            for (int i = 0; i < PER_LANE; i++) value[2 * (first + i)] = pack_value(v[i]);
        }
    }
    KF_BLOCK_SYNC();
}

// The block's share of the keys of one (row, kv head), to the exchange as an unfinished softmax.
KF_DEVICE void attend_slow(Frame& f, int layer, int unit, int row, int kv_head, int split, u32 tag) {
    constexpr int TILES = D / 16;  // half the dims: two warps share a block of keys
    int length = f.shared.position[row] + 1, blocks = (length + KEY_BLOCK - 1) / KEY_BLOCK;
    long long base = layer * f.p.layer_values
                     + (static_cast<long long>(f.shared.row_slot[row]) * KV_HEADS + kv_head) * f.p.context * D;
    int half = warp_index() % 2, g = warp_lane() / 4;
    u32 q[D / 16][2];
    load_queries<D>(g < GROUP ? f.shared.q[0][g] : nullptr, q);
    Softmax softmax;
    float out[TILES][2] = {};
    int end = blocks * (split + 1) / SPLITS;
    for (int block = blocks * split / SPLITS + warp_index() / 2; block < end; block += WARPS / 2) {
        long long start = base + static_cast<long long>(block) * KEY_BLOCK * D;
        int left = length - block * KEY_BLOCK;
        attend_block<D>(f.p.keys + start, f.p.values + start, q, left, left, f.p.scale_log2, half * TILES, softmax, out);
    }
    float* parts = f.shared.scratch;  // [WARPS / 2][GROUP][D + 2]
    store_part<D>(parts + (warp_index() / 2 * GROUP + g) * (D + 2), g < GROUP, half * TILES, softmax, out);
    KF_BLOCK_SYNC();
    u64* words = f.p.exchange + PART_AT + unit * PART_WORDS;
    for (int i = threadIdx.x; i < GROUP * D; i += CONSUMERS) {
        float largest = -KF_INFINITY, sum = 0.0f, total = 0.0f;
        for (int w = 0; w < WARPS / 2; w++) largest = fmaxf(largest, parts[(w * GROUP + i / D) * (D + 2) + D]);
        for (int w = 0; w < WARPS / 2; w++) {
            const float* part = parts + (w * GROUP + i / D) * (D + 2);
            if (part[D + 1] == 0.0f) continue;
            float weight = exp2f(part[D] - largest);
            sum += weight * part[i % D];
            total += weight * part[D + 1];
        }
        ptx::store_word(words + i, __float_as_uint(sum), tag);
        if (i % D == 0) {
            ptx::store_word(words + GROUP * D + 2 * (i / D), __float_as_uint(largest), tag);
            ptx::store_word(words + GROUP * D + 2 * (i / D) + 1, __float_as_uint(total), tag);
        }
    }
}

// The blocks of one (row, kv head) share its outputs out among themselves; one thread per (output, split).
KF_DEVICE void combine_slow(Frame& f, int unit, int row, int kv_head, int split, u32 part_tag, u32 tag) {
    constexpr int OUTPUTS = GROUP * D / SPLITS;
    int output = split * OUTPUTS + threadIdx.x / SPLITS, of_split = threadIdx.x % SPLITS;
    const u64* words = f.p.exchange + PART_AT + (unit - split + of_split) * PART_WORDS;
    const u64* stats = words + GROUP * D + output / D * 2;
    float value = __uint_as_float(wait_word(words + output, part_tag));
    float score = __uint_as_float(wait_word(stats, part_tag)), total = __uint_as_float(wait_word(stats + 1, part_tag));
    __syncwarp();
    float largest = score;
    for (int mask = 1; mask < SPLITS; mask *= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, mask));
    float weight = exp2f(score - largest);  // 0 for a split without keys
    value *= weight;
    total *= weight;
    for (int mask = 1; mask < SPLITS; mask *= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, mask);
        total += __shfl_xor_sync(ALL_LANES, total, mask);
    }
    float mine = value / total, next = __shfl_xor_sync(ALL_LANES, mine, SPLITS);
    if (of_split == 0 && output % 2 == 0)
        ptx::store_word(f.words(ATTENDED_AT, row, Q_WIDTH / 2) + (kv_head * GROUP * D + output) / 2,
                        pack_f16_clamped(mine, next), tag);
}

KF_DEVICE u32 slow_layer(Frame& f, int layer, u32 x_tag) {
    u32 qkv_tag = ++f.tag, part_tag = ++f.tag, attended_tag = ++f.tag;
    product<QkvProduct, true>(
        f, BATCH,
        [&](int part, u32 (&a)[QkvProduct::STEPS][2]) {
            load_words<QkvProduct>(f, X_AT, DIM / 2, BATCH, x_tag, part, a);
        },
        [&](int first, int outputs) {
            store_pairs<QkvProduct>(f, first, outputs, BATCH, QKV_AT, QKV_WIDTH / 2, qkv_tag, f.p.slow_eps);
        });
    int unit = blockIdx.x, split = unit % SPLITS, kv_head = unit / SPLITS % KV_HEADS, row = unit / SPLITS / KV_HEADS;
    prepare_slow(f, layer, row, kv_head, split == SPLITS - 1, qkv_tag);
    f.mark();
    attend_slow(f, layer, unit, row, kv_head, split, part_tag);
    f.mark();
    combine_slow(f, unit, row, kv_head, split, part_tag, attended_tag);
    return finish_layer(f, BATCH, f.shared.x_slow, attended_tag, f.p.slow_eps);
}

// Queries of the unit's tokens to shared memory, their keys and values to the frame's cache there.
KF_DEVICE void prepare_fast(Frame& f, int layer, int slot_row, int kv_head, int first, int tokens, u32 tag) {
    int lane_first = warp_lane() * PER_LANE;
    for (int item = warp_index(); item < (GROUP + 2) * tokens; item += WARPS) {
        int token = item / (GROUP + 2), role = item % (GROUP + 2), row = slot_row * tokens + token;
        const float* rope_row = f.p.fast_rope + (first + token) * D;
        float v[PER_LANE];
        if (role < GROUP) {
            load_head_words(f, row, (kv_head * GROUP + role) * D, tag, v);
            norm_and_rotate(v, nullptr, rope_row, 0.0f);
            store_bf16(&f.shared.q[token][role][lane_first], v);
        } else if (role == GROUP) {
            load_head_words(f, row, (HEADS + kv_head) * D, tag, v);
            norm_and_rotate(v, nullptr, rope_row, 0.0f);
            store_bf16(&f.shared.fast_keys[layer][first + token][lane_first], v);
        } else {
            load_head_words(f, row, (HEADS + KV_HEADS + kv_head) * D, tag, v);
            store_bf16(&f.shared.fast_values[layer][first + token][lane_first], v);
        }
    }
    KF_BLOCK_SYNC();
}

// One warp per (token, head) over all positions up to the token's.
KF_DEVICE void attend_fast(Frame& f, int layer, int slot_row, int kv_head, int first, int tokens, u32 tag) {
    int lane_first = warp_lane() * PER_LANE;
    for (int item = warp_index(); item < GROUP * tokens; item += WARPS) {
        int token = item / GROUP, head = item % GROUP, last = first + token;
        float q[PER_LANE], score[CODEBOOKS], largest = -KF_INFINITY, total = 0.0f, out[PER_LANE] = {};
        load_bf16(&f.shared.q[token][head][lane_first], q);
#pragma unroll
        for (int position = 0; position < CODEBOOKS; position++) {
            float key[PER_LANE];
            load_bf16(&f.shared.fast_keys[layer][min(position, last)][lane_first], key);
            score[position] = 0.0f;
            for (int i = 0; i < PER_LANE; i++) score[position] += q[i] * key[i];
        }
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2)
#pragma unroll
            for (int position = 0; position < CODEBOOKS; position++)
                score[position] += __shfl_xor_sync(ALL_LANES, score[position], mask);
#pragma unroll
        for (int position = 0; position < CODEBOOKS; position++)
            if (position <= last) largest = fmaxf(largest, score[position]);
#pragma unroll
        for (int position = 0; position < CODEBOOKS; position++) {
            if (position > last) continue;
            float weight = exp2f((score[position] - largest) * f.p.scale_log2), value[PER_LANE];
            load_bf16(&f.shared.fast_values[layer][position][lane_first], value);
            total += weight;
            for (int i = 0; i < PER_LANE; i++) out[i] += weight * value[i];
        }
        u64* words = f.words(ATTENDED_AT, slot_row * tokens + token, Q_WIDTH / 2)
                     + ((kv_head * GROUP + head) * D + lane_first) / 2;
        for (int i = 0; i < PER_LANE; i += 2)
            ptx::store_word(words + i / 2, pack_f16_clamped(out[i] / total, out[i + 1] / total), tag);
    }
}

// `load` gives the first layer's input; deeper layers take it from the exchange.
template <class Load>
KF_DEVICE u32 fast_layer(Frame& f, int layer, int first, int tokens, Load load) {
    int rows = BATCH * tokens;
    u32 qkv_tag = ++f.tag, attended_tag = ++f.tag;
    product<QkvProduct, true>(f, rows, load, [&](int from, int outputs) {
        store_pairs<QkvProduct>(f, from, outputs, rows, QKV_AT, QKV_WIDTH / 2, qkv_tag, f.p.fast_eps);
    });
    if (blockIdx.x < BATCH * KV_HEADS) {
        int kv_head = blockIdx.x % KV_HEADS, slot_row = blockIdx.x / KV_HEADS;
        prepare_fast(f, layer, slot_row, kv_head, first, tokens, qkv_tag);
        attend_fast(f, layer, slot_row, kv_head, first, tokens, attended_tag);
    }
    return finish_layer(f, rows, f.shared.x_fast, attended_tag, f.p.fast_eps);
}

// ---- inputs, heads, draws ------------------------------------------------------------------------------------------

// The block's elements of the slots' next inputs, to the residual and to everybody.
KF_DEVICE void embed_slots(Frame& f, u32 tag) {
    for (int i = threadIdx.x; i < OWN / 2 * BATCH; i += CONSUMERS) {
        int row = i / (OWN / 2), own = i % (OWN / 2) * 2, at = blockIdx.x * OWN + own;
        const int* column = f.p.state.columns + f.shared.row_slot[row] * (1 + CODEBOOKS);
        u32 text = *reinterpret_cast<const u32*>(f.p.embeddings + static_cast<long long>(column[0]) * DIM + at);
        float low = bf16_low(text), high = bf16_high(text);
        if (column[0] >= f.p.semantic_begin && column[0] < f.p.semantic_begin + CODES) {
            u32 pairs[CODEBOOKS];
#pragma unroll
            for (int k = 0; k < CODEBOOKS; k++)
                pairs[k] = *reinterpret_cast<const u32*>(
                    f.p.codebook_embeddings + (static_cast<long long>(k) * CODES + column[1 + k]) * DIM + at);
#pragma unroll
            for (int k = 0; k < CODEBOOKS; k++) {
                low += bf16_low(pairs[k]);
                high += bf16_high(pairs[k]);
            }
            low *= f.p.spoken_scale;
            high *= f.p.spoken_scale;
        }
        f.shared.x_slow[row][own] = low;
        f.shared.x_slow[row][own + 1] = high;
        ptx::store_word(f.words(X_AT, row, DIM / 2) + at / 2, pack_f16_clamped(low, high), tag);
    }
}

// Logits of the codes and of end-of-speech; beside them the normed output, position 0 of the fast transformer.
KF_DEVICE void slow_head(Frame& f, u32 x_tag, u32 logits_tag, u32 hidden_tag) {
    product<SlowHead, true>(
        f, BATCH,
        [&](int part, u32 (&a)[SlowHead::STEPS][2]) { load_words<SlowHead>(f, X_AT, DIM / 2, BATCH, x_tag, part, a); },
        [&](int first, int outputs) {
            for (int i = threadIdx.x; i < outputs * BATCH; i += CONSUMERS) {
                int row = i / outputs, output = first + i % outputs, extra = output - CODES / BLOCKS;
                int index = extra < 0 ? blockIdx.x * (CODES / BLOCKS) + output
                                      : CODES + blockIdx.x * SlowHead::CHUNK_ROWS + extra;
                if (index > CODES) continue;  // padding beside the end token
                float logit = sum_of<SlowHead>(f, first / SlowHead::CHUNK_ROWS, output, row)
                              * inverse_rms(f, row, f.p.slow_eps);
                ptx::store_word(f.words(LOGITS_AT, row, LOGIT_WORDS) + index, __float_as_uint(logit), logits_tag);
            }
            for (int i = threadIdx.x; first == 0 && i < OWN / 2 * BATCH; i += CONSUMERS) {
                int row = i / (OWN / 2), own = i % (OWN / 2) * 2, at = blockIdx.x * OWN + own;
                float inverse = inverse_rms(f, row, f.p.slow_eps);
                float low = f.shared.x_slow[row][own] * inverse * bf16_to_float(f.p.slow_norm[at]);
                float high = f.shared.x_slow[row][own + 1] * inverse * bf16_to_float(f.p.slow_norm[at + 1]);
                f.shared.x_fast[2 * row][own] = low;
                f.shared.x_fast[2 * row][own + 1] = high;
                ptx::store_word(f.words(X_AT, 2 * row, DIM / 2) + at / 2, pack_f16_clamped(low, high), hidden_tag);
            }
        });
}

KF_DEVICE void fast_head(Frame& f, int tokens, u32 x_tag, u32 logits_tag) {
    int rows = BATCH * tokens;
    product<FastHead, true>(
        f, rows,
        [&](int part, u32 (&a)[FastHead::STEPS][2]) { load_words<FastHead>(f, X_AT, DIM / 2, rows, x_tag, part, a); },
        [&](int first, int outputs) {
            for (int i = threadIdx.x; i < outputs * BATCH; i += CONSUMERS) {
                int row = i / outputs, output = first + i % outputs, from = row * tokens + tokens - 1;
                float logit = sum_of<FastHead>(f, first / FastHead::CHUNK_ROWS, output, from)
                              * inverse_rms(f, from, f.p.fast_eps);
                ptx::store_word(f.words(LOGITS_AT, row, LOGIT_WORDS) + blockIdx.x * FastHead::ROWS + output,
                                __float_as_uint(logit), logits_tag);
            }
        });
}

// The block whose number is a row's draws for it.
KF_DEVICE Candidates gather_logits(Frame& f, int length, int slot, u32 tag, SamplerScratch& scratch) {
    float* logits = reinterpret_cast<float*>(&scratch + 1);
    const u64* words = f.words(LOGITS_AT, blockIdx.x, LOGIT_WORDS);
    for (int i = threadIdx.x; i < length; i += CONSUMERS) logits[i] = __uint_as_float(wait_word(words + i, tag));
    KF_BLOCK_SYNC();
    return find_candidates(logits, length, f.p.state.top_k[slot], scratch);
}

KF_DEVICE void draw_first(Frame& f, u32 logits_tag, u32 code_tag) {
    if (blockIdx.x >= BATCH) return;
    auto& scratch = *reinterpret_cast<SamplerScratch*>(f.shared.scratch);
    int row = blockIdx.x, slot = f.shared.row_slot[row];
    Candidates candidates = gather_logits(f, CODES + 1, slot, logits_tag, scratch);
    int drawn = draw_semantic(f.p.state, slot, candidates, f.p.semantic_begin, scratch);
    if (threadIdx.x > 0) return;
    bool ended_before = f.p.state.ended[slot] != 0;
    bool bad = !candidates.finite && !ended_before;  // no frame can be made: the slot ends
    bool ended = ended_before || drawn == CODES || bad;
    f.shared.codes[0] = min(drawn, CODES - 1);
    ptx::store_word(f.p.exchange + CODE_AT + row, f.shared.codes[0], code_tag);
    f.p.state.ended[slot] = ended;
    f.p.ended[row] = ended;
    f.p.finite[row] = !bad;
}

KF_DEVICE void draw_next(Frame& f, int codebook, u32 logits_tag, u32 code_tag) {
    if (blockIdx.x >= BATCH) return;
    auto& scratch = *reinterpret_cast<SamplerScratch*>(f.shared.scratch);
    int row = blockIdx.x, slot = f.shared.row_slot[row];
    Candidates candidates = gather_logits(f, RESIDUALS, slot, logits_tag, scratch);
    int code = draw(candidates, slot_draw(f.p.state, slot, codebook), scratch);
    if (threadIdx.x > 0) return;
    f.shared.codes[codebook] = code;
    if (!candidates.finite && !f.p.state.ended[slot]) {
        f.p.state.ended[slot] = 1;
        f.p.finite[row] = 0;
    }
    ptx::store_word(f.p.exchange + CODE_AT + row, code, code_tag);
    if (codebook == CODEBOOKS - 1 && !f.p.state.ended[slot])
        close_frame(f.p.state, slot, f.shared.codes, f.p.semantic_begin);
}

// The embedding of the code just drawn for a slot.
KF_DEVICE const u16* code_row(Frame& f, int row, u32 code_tag) {
    return f.p.fast_embeddings + static_cast<long long>(wait_word(f.p.exchange + CODE_AT + row, code_tag)) * DIM;
}

// One pass of the fast transformer: positions 0 and 1 together, or the code drawn last. Returns x's tag.
KF_DEVICE u32 fast_pass(Frame& f, int codebook, u32 code_tag, u32 hidden_tag) {
    int tokens = codebook == 1 ? 2 : 1, first = codebook == 1 ? 0 : codebook, rows = BATCH * tokens;
    for (int i = threadIdx.x; i < OWN * BATCH; i += CONSUMERS) {
        int row = i / OWN, own = i % OWN;
        f.shared.x_fast[row * tokens + tokens - 1][own] = bf16_to_float(code_row(f, row, code_tag)[blockIdx.x * OWN + own]);
    }
    u32 x_tag = 0;
    for (int layer = 0; layer < FAST_LAYERS; layer++)
        x_tag = fast_layer(f, layer, first, tokens, [&](int part, u32 (&a)[QkvProduct::STEPS][2]) {
            int g = warp_lane() / 4;
            if (layer > 0) {
                load_words<QkvProduct>(f, X_AT, DIM / 2, rows, x_tag, part, a);
            } else if (g < rows && g % tokens == tokens - 1) {
                load_table<QkvProduct>(code_row(f, g / tokens, code_tag), part, a);
            } else if (g < rows) {
                wait_pairs<QkvProduct::STEPS>(f.words(X_AT, g, DIM / 2) + first_k<QkvProduct>(part) / 2, 8, hidden_tag, a);
            }
        });
    return x_tag;
}

KF_DEVICE void consume(Frame& f) {
    u32 x_tag = ++f.tag;
    embed_slots(f, x_tag);
    for (int layer = 0; layer < SLOW_LAYERS; layer++) x_tag = slow_layer(f, layer, x_tag);
    u32 logits_tag = ++f.tag, hidden_tag = ++f.tag, code_tag = ++f.tag;
    slow_head(f, x_tag, logits_tag, hidden_tag);
    draw_first(f, logits_tag, code_tag);
    for (int codebook = 1; codebook < CODEBOOKS; codebook++) {
        x_tag = fast_pass(f, codebook, code_tag, hidden_tag);
        logits_tag = ++f.tag;
        code_tag = ++f.tag;
        fast_head(f, codebook == 1 ? 2 : 1, x_tag, logits_tag);
        draw_next(f, codebook, logits_tag, code_tag);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *f.p.epoch = f.tag;
}

// ---- the producer -----------------------------------------------------------------------------------------------

template <class P>
KF_DEVICE const u8* put_product(Ring& ring, const u8* weights) {
    for (int chunk = 0; chunk < P::CHUNKS; chunk++, weights += P::CHUNK_BYTES) ring.put(weights, P::CHUNK_BYTES);
    return weights;
}

KF_DEVICE const u8* put_layers(Ring& ring, const u8* weights, int layers) {
    for (int layer = 0; layer < layers; layer++) {
        weights = put_product<QkvProduct>(ring, weights);
        weights = put_product<OutProduct>(ring, weights);
        weights = put_product<GateUpProduct>(ring, weights);
        weights = put_product<DownProduct>(ring, weights);
    }
    return weights;
}

KF_DEVICE void produce(const FrameParams& p, Ring& ring) {
    const u8* slow = p.slow_weights + blockIdx.x * (SLOW_LAYERS * LAYER_BYTES + SlowHead::BYTES);
    const u8* fast = p.fast_weights + blockIdx.x * (FAST_LAYERS * LAYER_BYTES + FastHead::BYTES);
    put_product<SlowHead>(ring, put_layers(ring, slow, SLOW_LAYERS));
    for (int codebook = 1; codebook < CODEBOOKS; codebook++)
        put_product<FastHead>(ring, put_layers(ring, fast, FAST_LAYERS));
}

constexpr int RING_BYTES = (Ring::SHARED_BYTES + 127) / 128 * 128;
static_assert(RING_BYTES + sizeof(Shared) == KF_SHARED_BYTES, "the launch must ask for exactly what is used");

// A warpgroup for the producer, though one thread does its work: registers move between warpgroups only. The block starts
// with 96 registers per thread; what the producers give up, and no more, is there for the consumers to take.
constexpr int FRAME_THREADS = CONSUMERS + 128;
constexpr int STARTING_REGISTERS = 96, CONSUMER_REGISTERS = 112, PRODUCER_REGISTERS = 24;
constexpr bool MOVES_REGISTERS = CONSUMERS == 512;  // a smaller block has plenty
static_assert((CONSUMER_REGISTERS - STARTING_REGISTERS) * 512 <= (STARTING_REGISTERS - PRODUCER_REGISTERS) * 128,
              "taking more than was given waits for ever");

KF_KERNEL(decode_frame, FrameParams, FRAME_THREADS) {
    KF_SHARED(memory);
    Ring ring(memory);
    auto& shared = *reinterpret_cast<Shared*>(memory + RING_BYTES);
    if (threadIdx.x == 0) ring.init(WARPS);
    if (threadIdx.x < BATCH) {
        int slot = p.row_slot[threadIdx.x];
        shared.row_slot[threadIdx.x] = slot;
        shared.position[threadIdx.x] = p.state.positions[slot];
    }
    u32 epoch = *p.epoch;
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        if constexpr (MOVES_REGISTERS) ptx::give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == CONSUMERS) produce(p, ring);
    } else {
        if constexpr (MOVES_REGISTERS) ptx::take_registers<CONSUMER_REGISTERS>();
        Frame frame{p, shared, ring, epoch};
        consume(frame);
    }
}
