// Drawing a token: the filters and the keyed noise of engine/model/sampling.py, which is the specification.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace kf {

struct Sampling {
    float temperature, top_p;
    int32_t top_k;
    uint64_t seed;
};

// Philox4x32-10: the four words of one block.
inline void philox(uint32_t c[4], uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)c[0] * 0xD2511F53u, p1 = (uint64_t)c[2] * 0xCD9E8D57u;
        const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                                  (uint32_t)p0};
        std::copy(next, next + 4, c);
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
}

inline float uniform(uint64_t seed, uint32_t frame, uint32_t stream, uint32_t index) {
    uint32_t block[4] = {index / 4, frame, stream, 0};
    philox(block, (uint32_t)seed, (uint32_t)(seed >> 32));
    return ((block[index % 4] >> 9) + 0.5f) * 0x1p-23f;
}

class Sampler {
  public:
    // Index into logits[n]. Rank 0 always survives; others while their cumulative mass at temperature 1, their own
    // included, does not exceed top_p, and their rank is below top_k.
    int draw(const float* logits, int n, const Sampling& s, uint32_t frame, uint32_t stream) {
        order_.resize(n);
        std::iota(order_.begin(), order_.end(), 0);
        const int keep = std::clamp(s.top_k, 1, n);
        auto before = [=](int a, int b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
        std::partial_sort(order_.begin(), order_.begin() + keep, order_.end(), before);
        const float top = logits[order_[0]];
        double total = 0.0;
        for (int i = 0; i < n; i++) total += std::exp(logits[i] - top);
        const float temperature = std::max(s.temperature, 1e-5f);
        double mass = 0.0;
        float best = -1.0f;
        int chosen = order_[0];
        for (int rank = 0; rank < keep; rank++) {
            const int i = order_[rank];
            mass += std::exp(logits[i] - top) / total;
            if (rank > 0 && (float)mass > s.top_p) break;
            const float chance = std::exp((logits[i] - top) / temperature);
            const float time = chance / -std::log(uniform(s.seed, frame, stream, i));
            if (time > best) best = time, chosen = i;
        }
        return chosen;
    }

  private:
    std::vector<int> order_;
};

}  // namespace kf
