// Drawing the codes of a frame and keeping the slots' books on the device, one block per row.
//
// `sample_semantic` draws the slow transformer's token by repetition-aware sampling and sets up the fast transformer's
// first two inputs; `sample_residual` draws one further codebook, and the last one closes the frame. A slot that ended
// stays ended: whatever is still in flight for it changes nothing.
#include <common/slot.cuh>

struct SemanticParams {
    SlotState state;
    const int* row_slot;         // [B]
    const float* logits;         // [B, stride]; the first codebook_size + 1 count, the last of them is end-of-speech
    const float* fast_in;        // [B, fast_dim] or null
    const u16* fast_projected;   // bf16 [B, fast_dim] or null: then fast_bias is added
    const u16* fast_bias;        // bf16 [fast_dim]
    const u16* fast_embeddings;  // bf16 [codebook_size, fast_dim]
    float* fast_x;               // [2B, fast_dim]: position 0 and 1 of each row
    int* row_codes;              // [B, K]
    u8* ended;                   // [B] for the host
    u8* finite;                  // [B] for the host
    int stride;
    int codebook_size;
    int semantic_begin;
    int fast_dim;
};

KF_DEVICE float* load_logits(const float* logits, int length, SamplerScratch* scratch) {
    float* row = reinterpret_cast<float*>(scratch + 1);
    for (int i = threadIdx.x; i < length; i += SAMPLER_THREADS) row[i] = logits[i];
    __syncthreads();
    return row;
}

KF_KERNEL(sample_semantic, SemanticParams, SAMPLER_THREADS) {
    KF_SHARED(shared);
    auto& scratch = *reinterpret_cast<SamplerScratch*>(shared);
    const SlotState& state = p.state;
    int row = blockIdx.x, slot = p.row_slot[row], length = p.codebook_size + 1;
    const float* logits = load_logits(p.logits + static_cast<long long>(row) * p.stride, length, &scratch);
    bool ended_before = state.ended[slot] != 0;
    Candidates candidates = find_candidates(logits, length, state.top_k[slot], scratch);
    int drawn = draw_semantic(state, slot, candidates, p.semantic_begin, scratch);
    bool bad = !candidates.finite && !ended_before;  // no frame can be made: the slot ends
    bool ended = ended_before || drawn == p.codebook_size || bad;
    int code = min(drawn, p.codebook_size - 1);
    __syncthreads();  // every thread has read the slot's state
    if (threadIdx.x == 0) {
        state.ended[slot] = ended;
        p.row_codes[row * state.codebooks] = code;
        p.ended[row] = ended;
        p.finite[row] = !bad;
    }
    for (int i = threadIdx.x; i < p.fast_dim; i += SAMPLER_THREADS) {
        long long place = static_cast<long long>(row) * p.fast_dim + i;
        float* x = p.fast_x + 2ll * row * p.fast_dim + i;
        x[0] = p.fast_in ? p.fast_in[place] : bf16_to_float(p.fast_projected[place]) + bf16_to_float(p.fast_bias[i]);
        x[p.fast_dim] = bf16_to_float(p.fast_embeddings[static_cast<long long>(code) * p.fast_dim + i]);
    }
}

struct ResidualParams {
    SlotState state;
    const int* row_slot;         // [B]
    const float* logits;         // [B, stride]
    const u16* fast_embeddings;  // bf16 [codebook_size, fast_dim]
    float* fast_x;               // [B, fast_dim]: the next position's input
    int* row_codes;              // [B, K]
    u8* finite;                  // [B] for the host
    int stride;
    int length;                  // codes that may be drawn
    int codebook;                // 1..K-1; the last one closes the frame
    int semantic_begin;
    int fast_dim;
};

KF_KERNEL(sample_residual, ResidualParams, SAMPLER_THREADS) {
    KF_SHARED(shared);
    auto& scratch = *reinterpret_cast<SamplerScratch*>(shared);
    const SlotState& state = p.state;
    int row = blockIdx.x, slot = p.row_slot[row];
    const float* logits = load_logits(p.logits + static_cast<long long>(row) * p.stride, p.length, &scratch);
    Draw d = slot_draw(state, slot, p.codebook);
    Candidates candidates = find_candidates(logits, p.length, state.top_k[slot], scratch);
    int code = draw(candidates, d, scratch);
    bool last = p.codebook == state.codebooks - 1;
    if (threadIdx.x == 0) {
        int* codes = p.row_codes + row * state.codebooks;
        codes[p.codebook] = code;
        if (!candidates.finite && !state.ended[slot]) {
            state.ended[slot] = 1;
            p.finite[row] = 0;
        }
        if (last && !state.ended[slot]) close_frame(state, slot, codes, p.semantic_begin);
    }
    if (last) return;
    for (int i = threadIdx.x; i < p.fast_dim; i += SAMPLER_THREADS)
        p.fast_x[static_cast<long long>(row) * p.fast_dim + i] =
            bf16_to_float(p.fast_embeddings[static_cast<long long>(code) * p.fast_dim + i]);
}

constexpr int MAX_CODEBOOKS = 32;

struct ArmParams {
    int* columns;
    int* positions;
    int* frames;
    int* ended;
    int* window;
    float* temperature;
    float* top_p;
    int* top_k;
    u32* seed;
    int codebooks;
    int slot;
    int position;
    int row_top_k;
    float row_temperature;
    float row_top_p;
    u32 seed_low;
    u32 seed_high;
    int column[1 + MAX_CODEBOOKS];
};

// A unit begins: everything of the slot but its KV is set anew. The values travel in the launch itself.
KF_KERNEL(arm_slot, ArmParams, 32) {
    int lane = threadIdx.x;
    for (int i = lane; i < 1 + p.codebooks; i += 32) p.columns[p.slot * (1 + p.codebooks) + i] = p.column[i];
    for (int i = lane; i < RAS_WINDOW; i += 32) p.window[p.slot * RAS_WINDOW + i] = 0;
    if (lane > 0) return;
    p.positions[p.slot] = p.position;
    p.frames[p.slot] = 0;
    p.ended[p.slot] = 0;
    p.temperature[p.slot] = p.row_temperature;
    p.top_p[p.slot] = p.row_top_p;
    p.top_k[p.slot] = p.row_top_k;
    p.seed[2 * p.slot] = p.seed_low;
    p.seed[2 * p.slot + 1] = p.seed_high;
}
