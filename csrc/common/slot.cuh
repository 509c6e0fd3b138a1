// What the device keeps per slot, and how drawing tokens reads and writes it.
#pragma once

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

KF_DEVICE Draw slot_draw(const SlotState& state, int slot, u32 stream) {
    return {state.temperature[slot], state.top_p[slot], state.seed[2 * slot], state.seed[2 * slot + 1],
            static_cast<u32>(state.frames[slot]), stream};
}

// Repetition-aware sampling of the slow transformer's token. The whole block; an index of `length` logits, the last of
// which is end-of-speech.
KF_DEVICE int draw_semantic(const SlotState& state, int slot, const Candidates& candidates, int semantic_begin,
                            SamplerScratch& scratch) {
    Draw d = slot_draw(state, slot, 0);
    int drawn = draw(candidates, d, scratch);
    if (state.frames[slot] == 0 || drawn == candidates.length - 1) return drawn;
    bool repeated = false;
    for (int i = 0; i < RAS_WINDOW; i++)
        repeated = repeated || state.window[slot * RAS_WINDOW + i] == drawn + semantic_begin;
    if (!repeated) return drawn;
    d.temperature = RAS_TEMPERATURE;
    d.top_p = RAS_TOP_P;
    d.stream = state.codebooks;
    return draw(candidates, d, scratch);
}

// The frame is complete: it becomes the next input, joins the codec's ring and the window. One thread.
KF_DEVICE void close_frame(const SlotState& state, int slot, const int* codes, int semantic_begin) {
    int frame = state.frames[slot], columns = 1 + state.codebooks;
    int* ring = state.codes + (static_cast<long long>(slot) * state.pending + frame % state.pending) * state.codebooks;
    int token = semantic_begin + codes[0];
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
