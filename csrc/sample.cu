// Drawing the codes of a frame and keeping the slots' books on the device, one block per row.
//
// `sample_semantic` draws the slow transformer's token by repetition-aware sampling and sets up the fast transformer's
// first two inputs; `sample_residual` draws one further codebook, and the last one closes the frame. A slot that ended
// stays ended: whatever is still in flight for it changes nothing.
#include <common/sampler.cuh>

constexpr int RAS_WINDOW = 10;
constexpr float RAS_TEMPERATURE = 1.0f;
constexpr float RAS_TOP_P = 0.9f;

struct SlotState {             // rows are slots
    int* columns;              // [S, 1+K] the next input
    int* positions;            // [S] where it goes
    int* frames;               // [S] frames of the unit so far
    int* ended;                // [S]
    int* window;               // [S, RAS_WINDOW] last semantic token ids, oldest first
    const float* temperature;  // [S]
    const float* top_p;
    const int* top_k;
    const u32* seed;           // [S, 2] low, high
    int* codes;                // [S, pending, K] ring of decoded frames
    int codebooks;
    int pending;
};

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
    int frame = state.frames[slot];
    bool ended_before = state.ended[slot] != 0;
    Draw d{state.temperature[slot], state.top_p[slot], state.seed[2 * slot], state.seed[2 * slot + 1],
           static_cast<u32>(frame), 0};
    Candidates candidates = find_candidates(logits, length, state.top_k[slot], scratch);
    int drawn = draw(candidates, d, scratch);
    if (frame > 0 && drawn < p.codebook_size) {
        bool repeated = false;
        for (int i = 0; i < RAS_WINDOW; i++)
            repeated = repeated || state.window[slot * RAS_WINDOW + i] == drawn + p.semantic_begin;
        if (repeated) {
            d.temperature = RAS_TEMPERATURE;
            d.top_p = RAS_TOP_P;
            d.stream = state.codebooks;
            drawn = draw(candidates, d, scratch);
        }
    }
    bool ended = ended_before || drawn == p.codebook_size;
    int code = min(drawn, p.codebook_size - 1);
    __syncthreads();  // every thread has read the slot's state
    if (threadIdx.x == 0) {
        state.ended[slot] = ended;
        p.row_codes[row * state.codebooks] = code;
        p.ended[row] = ended;
        p.finite[row] = candidates.finite;
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
    int stride;
    int length;                  // codes that may be drawn
    int codebook;                // 1..K-1; the last one closes the frame
    int semantic_begin;
    int fast_dim;
};

// The frame is complete: it becomes the next input, joins the codec's ring and the window. Thread 0 only.
KF_DEVICE void close_frame(const ResidualParams& p, int slot, const int* codes) {
    const SlotState& state = p.state;
    int frame = state.frames[slot], columns = 1 + state.codebooks;
    int* ring = state.codes + (static_cast<long long>(slot) * state.pending + frame % state.pending) * state.codebooks;
    int token = p.semantic_begin + codes[0];
    state.columns[slot * columns] = token;
    for (int k = 0; k < state.codebooks; k++) {
        state.columns[slot * columns + 1 + k] = codes[k];
        ring[k] = codes[k];
    }
    if (frame > 0) {
        int* window = state.window + slot * RAS_WINDOW;
        for (int i = 0; i + 1 < RAS_WINDOW; i++) window[i] = window[i + 1];
        window[RAS_WINDOW - 1] = token;
    }
    state.frames[slot] = frame + 1;
    state.positions[slot] += 1;
}

KF_KERNEL(sample_residual, ResidualParams, SAMPLER_THREADS) {
    KF_SHARED(shared);
    auto& scratch = *reinterpret_cast<SamplerScratch*>(shared);
    const SlotState& state = p.state;
    int row = blockIdx.x, slot = p.row_slot[row];
    const float* logits = load_logits(p.logits + static_cast<long long>(row) * p.stride, p.length, &scratch);
    Draw d{state.temperature[slot], state.top_p[slot], state.seed[2 * slot], state.seed[2 * slot + 1],
           static_cast<u32>(state.frames[slot]), static_cast<u32>(p.codebook)};
    int code = draw(find_candidates(logits, p.length, state.top_k[slot], scratch), d, scratch);
    bool last = p.codebook == state.codebooks - 1;
    if (threadIdx.x == 0) {
        int* codes = p.row_codes + row * state.codebooks;
        codes[p.codebook] = code;
        if (last && !state.ended[slot]) close_frame(p, slot, codes);
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
