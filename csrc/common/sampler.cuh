// Drawing one index from a row of logits by one block: section 4.1 of the model page, as engine/model/sampling.py.
//
// Sorting 4,097 logits for 30 survivors is waste. A histogram of the distance to the largest logit finds the few that
// can be among the top_k; counting the larger ones sorts them (stable: equal logits in index order); the mass of top_p
// uses the softmax over the whole row. Where the histogram is too coarse (many nearly equal logits) a radix select takes
// over. Between equal inputs the drawn index is the reference's unless two race values tie within rounding.
#pragma once

#include <common/numeric.cuh>
#include <common/philox.cuh>

#ifndef KF_SAMPLER_THREADS
#define KF_SAMPLER_THREADS 256
#endif

constexpr int SAMPLER_THREADS = KF_SAMPLER_THREADS;
constexpr int MAX_TOP_K = 256;
constexpr float MIN_TEMPERATURE = 1e-5f;

constexpr int BINS = 256;
constexpr float BINS_PER_UNIT = 16.0f;
constexpr int MAX_FOUND = 2 * MAX_TOP_K;

struct SamplerScratch {
    float reduce[32];
    int histogram[BINS];
    int selected;          // logits collected so far
    int ties;              // logits equal to the threshold found so far
    u32 threshold;         // key of the smallest logit that is kept
    int above;             // logits larger than the threshold
    int last_bin;
    int tie_index[MAX_TOP_K];
    float found[MAX_FOUND];
    int found_index[MAX_FOUND];
    float value[MAX_TOP_K];  // sorted, largest first
    int index[MAX_TOP_K];
    int drawn;
};

struct Candidates {
    int count;
    int length;
    float log_total;  // log of the sum of exp over the whole row
    bool finite;
};

struct Draw {
    float temperature;
    float top_p;
    u32 seed_low, seed_high, frame, stream;
};

// Order-preserving: a larger float has a larger key.
KF_DEVICE u32 sort_key(float value) {
    u32 bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Digit by digit from the top: the key of the count-th largest logit, and how many are strictly larger.
KF_DEVICE void select_threshold(const float* logits, int length, int count, SamplerScratch& s) {
    u32 prefix = 0, mask = 0;
    int wanted = count;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < 256; i += SAMPLER_THREADS) s.histogram[i] = 0;
        KF_BLOCK_SYNC();
        for (int i = threadIdx.x; i < length; i += SAMPLER_THREADS) {
            u32 key = sort_key(logits[i]);
            if ((key & mask) == prefix) atomicAdd(&s.histogram[(key >> shift) & 255], 1);
        }
        KF_BLOCK_SYNC();
        if (warp_index() == 0) {
            // Lane l owns digits 255-8l .. 248-8l; a prefix sum over lanes finds the digit where `wanted` is reached.
            int top = 255 - 8 * static_cast<int>(warp_lane()), mine = 0;
            for (int i = 0; i < 8; i++) mine += s.histogram[top - i];
            int before = mine;
            for (int delta = 1; delta < 32; delta *= 2) {
                int other = __shfl_up_sync(ALL_LANES, before, delta);
                if (static_cast<int>(warp_lane()) >= delta) before += other;
            }
            before -= mine;
            if (before < wanted && before + mine >= wanted) {
                int digit = top;
                while (before + s.histogram[digit] < wanted) before += s.histogram[digit--];
                s.threshold = prefix | static_cast<u32>(digit) << shift;
                s.above = wanted - before;  // how many are still wanted among those with this digit
            }
        }
        KF_BLOCK_SYNC();
        prefix = s.threshold;
        mask |= 255u << shift;
        wanted = s.above;
        KF_BLOCK_SYNC();
    }
    if (threadIdx.x == 0) s.above = count - wanted;
    KF_BLOCK_SYNC();
}

// Bin of a logit by its distance to the largest: 0 is the top. The last bin is everything far below (or not finite).
KF_DEVICE int distance_bin(float largest, float logit) {
    float bin = (largest - logit) * BINS_PER_UNIT;
    return bin < BINS - 1 ? static_cast<int>(bin) : BINS - 1;
}

// The last bin needed for `count` logits, if its population and all above fit the list; else BINS.
KF_DEVICE int last_bin(const float* logits, int length, int count, float largest, SamplerScratch& s) {
    for (int i = threadIdx.x; i < BINS; i += SAMPLER_THREADS) s.histogram[i] = 0;
    if (threadIdx.x == 0) s.last_bin = BINS;
    KF_BLOCK_SYNC();
    for (int i = threadIdx.x; i < length; i += SAMPLER_THREADS) {
        int bin = distance_bin(largest, logits[i]);
        if (bin < BINS - 1) atomicAdd(&s.histogram[bin], 1);
    }
    KF_BLOCK_SYNC();
    if (warp_index() == 0) {
        int first = 8 * static_cast<int>(warp_lane()), mine = 0;
        for (int i = 0; i < 8; i++) mine += s.histogram[first + i];
        int before = mine;
        for (int delta = 1; delta < 32; delta *= 2) {
            int other = __shfl_up_sync(ALL_LANES, before, delta);
            if (static_cast<int>(warp_lane()) >= delta) before += other;
        }
        before -= mine;
        if (before < count && before + mine >= count) {
            int bin = first;
            before += s.histogram[bin];
            while (before < count) before += s.histogram[++bin];
            if (before <= MAX_FOUND) s.last_bin = bin;
        }
    }
    KF_BLOCK_SYNC();
    int bin = s.last_bin;
    KF_BLOCK_SYNC();
    return bin;
}

// Fills s.found with at least the `count` largest logits; returns how many there are. Order is left to the caller.
KF_DEVICE int collect_by_bin(const float* logits, int length, int bin, float largest, SamplerScratch& s) {
    if (threadIdx.x == 0) s.selected = 0;
    KF_BLOCK_SYNC();
    for (int i = threadIdx.x; i < length; i += SAMPLER_THREADS) {
        if (distance_bin(largest, logits[i]) > bin) continue;
        int place = atomicAdd(&s.selected, 1);
        s.found[place] = logits[i];
        s.found_index[place] = i;
    }
    KF_BLOCK_SYNC();
    return s.selected;
}

// The same by an exact threshold: exactly `count`, of equal ones the lowest indices.
KF_DEVICE int collect_by_threshold(const float* logits, int length, int count, SamplerScratch& s) {
    select_threshold(logits, length, count, s);
    if (threadIdx.x == 0) s.selected = s.ties = 0;
    KF_BLOCK_SYNC();
    for (int i = threadIdx.x; i < length; i += SAMPLER_THREADS) {
        u32 key = sort_key(logits[i]);
        if (key > s.threshold) {
            int place = atomicAdd(&s.selected, 1);
            if (place < MAX_TOP_K) {
                s.found[place] = logits[i];
                s.found_index[place] = i;
            }
        } else if (key == s.threshold) {
            int place = atomicAdd(&s.ties, 1);
            if (place < MAX_TOP_K) s.tie_index[place] = i;
        }
    }
    KF_BLOCK_SYNC();
    // (More ties than the list holds: some of them, in no order.)
    int ties = min(s.ties, MAX_TOP_K);
    for (int t = threadIdx.x; t < ties; t += SAMPLER_THREADS) {
        int lower = 0;
        for (int other = 0; other < ties; other++) lower += s.tie_index[other] < s.tie_index[t];
        if (s.above + lower < count) {
            s.found[s.above + lower] = logits[s.tie_index[t]];
            s.found_index[s.above + lower] = s.tie_index[t];
        }
    }
    KF_BLOCK_SYNC();
    return count;
}

// The top_k largest logits, sorted, into s.value and s.index. logits are in shared memory.
KF_DEVICE Candidates find_candidates(const float* logits, int length, int top_k, SamplerScratch& s) {
    int count = max(1, min(min(top_k, length), MAX_TOP_K));
    float largest = -KF_INFINITY;
    bool finite = true;
    for (int i = threadIdx.x; i < length; i += SAMPLER_THREADS) {
        largest = fmaxf(largest, logits[i]);
        finite = finite && fabsf(logits[i]) < KF_INFINITY;
    }
    largest = block_max<SAMPLER_THREADS>(largest, s.reduce);
    bool all_finite = block_max<SAMPLER_THREADS>(finite ? 0.0f : 1.0f, s.reduce) == 0.0f;
    float total = 0.0f;
    for (int i = threadIdx.x; i < length; i += SAMPLER_THREADS) total += expf(logits[i] - largest);
    total = block_sum<SAMPLER_THREADS>(total, s.reduce);

    int bin = all_finite ? last_bin(logits, length, count, largest, s) : BINS;
    int found = bin < BINS ? collect_by_bin(logits, length, bin, largest, s)
                           : collect_by_threshold(logits, length, count, s);
    for (int c = threadIdx.x; c < found; c += SAMPLER_THREADS) {
        int rank = 0;
        for (int other = 0; other < found; other++)
            rank += s.found[other] > s.found[c] || (s.found[other] == s.found[c] && s.found_index[other] < s.found_index[c]);
        if (rank < count) {
            s.value[rank] = s.found[c];
            s.index[rank] = s.found_index[c];
        }
    }
    KF_BLOCK_SYNC();
    return {count, length, largest + logf(total), all_finite};
}

// An exponential race among the candidates that top_p leaves. Warp 0 draws; every thread gets the index.
KF_DEVICE int draw(const Candidates& candidates, const Draw& d, SamplerScratch& s) {
    if (warp_index() == 0) {
        float temperature = fmaxf(d.temperature, MIN_TEMPERATURE), mass_before = 0.0f, best = -1.0f;
        int winner = s.index[0];
        for (int base = 0; base < candidates.count; base += 32) {
            int rank = base + static_cast<int>(warp_lane());
            bool exists = rank < candidates.count;
            float mass = exists ? expf(s.value[rank] - candidates.log_total) : 0.0f;
            for (int delta = 1; delta < 32; delta *= 2) {
                float other = __shfl_up_sync(ALL_LANES, mass, delta);
                if (static_cast<int>(warp_lane()) >= delta) mass += other;
            }
            bool kept = exists && (rank == 0 || mass_before + mass <= d.top_p);
            if (kept) {
                float u = philox_uniform(d.seed_low, d.seed_high, d.frame, d.stream, s.index[rank]);
                float race = expf((s.value[rank] - s.value[0]) / temperature) / -logf(u);
                if (race > best) {
                    best = race;
                    winner = s.index[rank];
                }
            }
            mass_before += __shfl_sync(ALL_LANES, mass, 31);
        }
        for (int mask = 16; mask > 0; mask /= 2) {
            float other = __shfl_xor_sync(ALL_LANES, best, mask);
            int other_winner = __shfl_xor_sync(ALL_LANES, winner, mask);
            if (other > best || (other == best && other_winner < winner)) {
                best = other;
                winner = other_winner;
            }
        }
        // A row that is not finite has no order; its index must still be one.
        if (warp_lane() == 0) s.drawn = min(max(winner, 0), candidates.length - 1);
    }
    KF_BLOCK_SYNC();
    int drawn = s.drawn;
    KF_BLOCK_SYNC();
    return drawn;
}
