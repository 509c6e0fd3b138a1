// A stack of pre-norm blocks over slotted KV, for any mix of rows: several slots one token each (decode), or one
// slot many tokens (prefill). A row is (slot, position).
#pragma once

#include <vector>

#include "linear.h"
#include "reader.h"

namespace kf {

struct StackConfig {
    int32_t layers, dim, heads, kv_heads, head_dim, ffn_dim, context;
    int32_t qk_norm;
    float norm_eps;
};

struct Row {
    int slot, position;
    int text = 0, text_tokens = 0;  // positions of the text that is being spoken
    int* heard = nullptr;           // out, if there is a watched head: the token of the text it looks at most
};

inline void rms_norm(const float* x, int n, float eps, const float* weight, float* y) {
    vf squares = {};
    int i = 0;
    for (; i + VL <= n; i += VL) {
        const vf v = load(x + i);
        squares = fma(v, v, squares);
    }
    float total = sum(squares);
    for (; i < n; i++) total += x[i] * x[i];
    const float scale = 1.0f / std::sqrt(total / n + eps);
    for (i = 0; i < n; i++) y[i] = x[i] * scale * weight[i];
}

// x / (1 + e^-x) * gate, in place of x.
inline void silu_times(float* x, const float* gate, int n) {
    map(x, n, [](vf v, int) { return v / (splat(1.0f) + exp(-v)); });
    for (int i = 0; i < n; i++) x[i] *= gate[i];
}

// KV of one layer and slot: keys in blocks of VL positions, [kv head][block][dim][VL], so that scores are vectors
// over positions; values [kv head][position][dim], so that outputs are vectors over dims.
class KvLayout {
  public:
    KvLayout() = default;
    KvLayout(const StackConfig& c)
        : kv_heads(c.kv_heads), dim(c.head_dim), padded(round_up(c.head_dim, VL)), context(round_up(c.context, VL)) {}

    int kv_heads = 0, dim = 0, padded = 0, context = 0;

    size_t keys() const { return (size_t)kv_heads * context * dim; }
    size_t values() const { return (size_t)kv_heads * context * padded; }
    size_t floats() const { return keys() + values(); }
    float* key_block(float* base, int head, int block) const { return base + ((size_t)head * context + block * VL) * dim; }
    float* value(float* base, int head, int position) const {
        return base + keys() + ((size_t)head * context + position) * padded;
    }

    void append(float* base, int head, int position, const float* k, const float* v) const {
        float* block = key_block(base, head, position / VL) + position % VL;
        for (int d = 0; d < dim; d++) block[d * VL] = k[d];
        std::copy(v, v + dim, value(base, head, position));
    }
};

class Stack {
  public:
    // Buffers of one caller: prefill and decode run at the same time, each with its own.
    struct Scratch {
        explicit Scratch(bool has_helper = false) : team(has_helper) {}
        Team team;
        std::vector<float> normed, qkv, attended, hidden, scores[2];  // scores: one for each of the team
    };

    Stack(const StackConfig& config, int slots, Reader& reader) : config_(config), kv_(config) {
        const StackConfig& c = config;
        rope_ = reader.take((int64_t)c.context * c.head_dim, "rope table");
        for (int l = 0; l < c.layers; l++) layers_.emplace_back(c, reader);
        cache_.assign((size_t)slots * c.layers * kv_.floats(), 0.0f);
    }

    // From now on rows with `heard` learn where this query head looks.
    void watch(int layer, int head) { watched_layer_ = layer, watched_head_ = head; }

    // x [rows][dim] in place: the residual stream after the last block (before the final norm).
    void forward(float* x, const Row* rows, int count, Scratch& s) {
        const StackConfig& c = config_;
        reserve(s, count);
        for (int l = 0; l < c.layers; l++) {
            const Layer& layer = layers_[l];
            for (int m = 0; m < count; m++)
                rms_norm(x + m * c.dim, c.dim, c.norm_eps, layer.attention_norm.data(), &s.normed[m * c.dim]);
            layer.wqkv.run(s.team, s.normed.data(), count, c.dim, s.qkv.data(), qkv_width());
            for (int m = 0; m < count; m++) append(layer, l, rows[m], &s.qkv[(size_t)m * qkv_width()]);
            s.team.split([&](int share) {
                // Every other row: later rows of a prompt look at more positions.
                for (int m = share; m < count; m += 2)
                    attend(s.scores[share], l, rows[m], &s.qkv[(size_t)m * qkv_width()],
                           &s.attended[(size_t)m * c.heads * c.head_dim]);
            });
            layer.wo.run(s.team, s.attended.data(), count, c.heads * c.head_dim, x, c.dim, true);
            for (int m = 0; m < count; m++)
                rms_norm(x + m * c.dim, c.dim, c.norm_eps, layer.ffn_norm.data(), &s.normed[m * c.dim]);
            layer.w13.run(s.team, s.normed.data(), count, c.dim, s.hidden.data(), 2 * c.ffn_dim);
            for (int m = 0; m < count; m++) {
                float* h = &s.hidden[(size_t)m * 2 * c.ffn_dim];
                silu_times(h, h + c.ffn_dim, c.ffn_dim);
            }
            layer.w2.run(s.team, s.hidden.data(), count, 2 * c.ffn_dim, x, c.dim, true);
        }
    }

    float rounding() const {
        float most = 0.0f;
        for (const Layer& l : layers_)
            most = std::max({most, l.wqkv.rounding, l.wo.rounding, l.w13.rounding, l.w2.rounding});
        return most;
    }

    // Copy the first `tokens` positions of a slot out to (or in from) a buffer of prefix_floats(tokens).
    size_t prefix_floats(int tokens) const {
        const size_t positions = round_up(tokens, VL);
        return (size_t)config_.layers * kv_.kv_heads * positions * (kv_.dim + kv_.padded);
    }
    void save_prefix(int slot, int tokens, float* out) { copy_prefix<true>(slot, tokens, out); }
    void load_prefix(int slot, int tokens, const float* in) { copy_prefix<false>(slot, tokens, const_cast<float*>(in)); }

  private:
    struct Layer {
        Linear wqkv, wo, w13, w2;
        std::vector<float> attention_norm, ffn_norm, q_norm, k_norm;

        Layer(const StackConfig& c, Reader& reader) {
            const int q = c.heads * c.head_dim, width = q + 2 * c.kv_heads * c.head_dim;
            auto vector = [&](int n, const char* what) {
                const float* p = reader.take(n, what);
                return std::vector<float>(p, p + n);
            };
            auto matrix = [&](Linear& linear, int outputs, int inputs, const char* what) {
                const float* w = reader.take((int64_t)outputs * inputs, what);
                linear.pack(1, inputs, outputs, [=](int, int i, int o) { return w[(size_t)o * inputs + i]; }, nullptr);
            };
            attention_norm = vector(c.dim, "attention_norm");
            matrix(wqkv, width, c.dim, "wqkv");
            if (c.qk_norm) {
                q_norm = vector(c.head_dim, "q_norm");
                k_norm = vector(c.head_dim, "k_norm");
            }
            matrix(wo, c.dim, q, "wo");
            ffn_norm = vector(c.dim, "ffn_norm");
            matrix(w13, 2 * c.ffn_dim, c.dim, "w1 and w3");
            matrix(w2, c.dim, c.ffn_dim, "w2");
        }
    };

    StackConfig config_;
    KvLayout kv_;
    const float* rope_;
    std::vector<Layer> layers_;
    int watched_layer_ = -1, watched_head_ = 0;
    std::vector<float> cache_;  // [slot][layer][KvLayout]

    int qkv_width() const { return (config_.heads + 2 * config_.kv_heads) * config_.head_dim; }
    float* cache(int slot, int layer) { return &cache_[((size_t)slot * config_.layers + layer) * kv_.floats()]; }

    void reserve(Scratch& s, int rows) const {
        const StackConfig& c = config_;
        if ((size_t)rows * c.dim <= s.normed.size()) return;
        s.normed.resize((size_t)rows * c.dim);
        s.qkv.resize((size_t)rows * qkv_width());
        s.attended.resize((size_t)rows * c.heads * c.head_dim);
        s.hidden.resize((size_t)rows * 2 * c.ffn_dim);
        for (auto& scores : s.scores) scores.resize((size_t)(c.heads / c.kv_heads) * kv_.context);
    }

    // Rotate interleaved pairs by the table's row for this position.
    void rotate(float* x, int position) const {
        const float* table = rope_ + (size_t)position * config_.head_dim;
        for (int i = 0; i < config_.head_dim; i += 2) {
            const float even = x[i], odd = x[i + 1], cos = table[i], sin = table[i + 1];
            x[i] = even * cos - odd * sin;
            x[i + 1] = odd * cos + even * sin;
        }
    }

    // Normalise and rotate q and k of a row in place; put k and v into the cache.
    void append(const Layer& layer, int l, Row row, float* qkv) {
        const StackConfig& c = config_;
        const int D = c.head_dim;
        for (int h = 0; h < c.heads + c.kv_heads; h++) {
            float* x = qkv + h * D;
            const std::vector<float>& norm = h < c.heads ? layer.q_norm : layer.k_norm;
            if (c.qk_norm) rms_norm(x, D, c.norm_eps, norm.data(), x);
            rotate(x, row.position);
        }
        const float *k = qkv + c.heads * D, *v = k + c.kv_heads * D;
        for (int g = 0; g < c.kv_heads; g++) kv_.append(cache(row.slot, l), g, row.position, k + g * D, v + g * D);
    }

    void attend(std::vector<float>& scores, int l, Row row, const float* q, float* out) {
        const int group = config_.heads / config_.kv_heads, length = row.position + 1;
        for (int g = 0; g < config_.kv_heads; g++)
            for (int first = 0; first < group; first += 3) {
                const int head = g * group + first, D = config_.head_dim;
                switch (std::min(3, group - first)) {
                    case 3: attend_heads<3>(scores, cache(row.slot, l), g, length, q + head * D, out + head * D); break;
                    case 2: attend_heads<2>(scores, cache(row.slot, l), g, length, q + head * D, out + head * D); break;
                    default: attend_heads<1>(scores, cache(row.slot, l), g, length, q + head * D, out + head * D);
                }
                const int watched = watched_head_ - head;
                if (l == watched_layer_ && row.heard && watched >= 0 && watched < std::min(3, group - first))
                    *row.heard = look(&scores[(size_t)watched * kv_.context], row);
            }
    }

    // The token of the row's text with the greatest weight, or -1 without text.
    static int look(const float* weights, const Row& row) {
        const float* text = weights + row.text;
        return row.text_tokens ? (int)(std::max_element(text, text + row.text_tokens) - text) : -1;
    }

    // NH query heads that share a kv head; q, out [NH][D].
    template <int NH>
    void attend_heads(std::vector<float>& scores, float* base, int g, int length, const float* q, float* out) {
        const int D = kv_.dim, blocks = (length + VL - 1) / VL, stride = kv_.context;
        const float scale = 1.0f / std::sqrt((float)D);
        float most[NH];
        for (int h = 0; h < NH; h++) most[h] = -INFINITY;
        for (int b = 0; b < blocks; b++) {
            const float* keys = kv_.key_block(base, g, b);
            vf even[NH] = {}, odd[NH] = {};
            for (int d = 0; d < D; d += 2) {
                const vf k0 = load(keys + d * VL), k1 = load(keys + (d + 1) * VL);
                for (int h = 0; h < NH; h++) {
                    even[h] = fma(splat(q[h * D + d]), k0, even[h]);
                    odd[h] = fma(splat(q[h * D + d + 1]), k1, odd[h]);
                }
            }
            for (int h = 0; h < NH; h++) {
                vf s = (even[h] + odd[h]) * splat(scale);
                for (int i = length - b * VL; i < VL; i++) s[i] = -INFINITY;
                for (int i = 0; i < VL; i++) most[h] = std::max(most[h], s[i]);
                store(&scores[h * stride + b * VL], s);
            }
        }
        float total[NH];
        for (int h = 0; h < NH; h++) {
            vf sums = {};
            for (int b = 0; b < blocks; b++) {
                float* s = &scores[h * stride + b * VL];
                vf e = exp(load(s) - splat(most[h]));
                for (int i = length - b * VL; i < VL; i++) e[i] = 0.0f;
                store(s, e);
                sums += e;
            }
            total[h] = sum(sums);
        }
        for (int d = 0; d < D; d += 2 * VL) weigh<NH>(scores.data(), base, g, length, d, total, out);
    }

    // Output dims d .. d + 2 VL: the weighted sum of values, two vectors per head at a time.
    template <int NH>
    void weigh(const float* scores, float* base, int g, int length, int d, const float* total, float* out) {
        const int D = kv_.dim, stride = kv_.context, vectors = D - d > VL ? 2 : 1;
        vf acc[NH][2] = {};
        for (int p = 0; p < length; p++) {
            const float* value = kv_.value(base, g, p) + d;
            const vf v0 = load(value), v1 = vectors == 2 ? load(value + VL) : v0;
            for (int h = 0; h < NH; h++) {
                const vf weight = splat(scores[h * stride + p]);
                acc[h][0] = fma(weight, v0, acc[h][0]);
                acc[h][1] = fma(weight, v1, acc[h][1]);
            }
        }
        for (int h = 0; h < NH; h++)
            for (int v = 0; v < vectors; v++)
                for (int i = 0; i < VL && d + v * VL + i < D; i++)
                    out[h * D + d + v * VL + i] = acc[h][v][i] / total[h];
    }

    template <bool kSave>
    void copy_prefix(int slot, int tokens, float* buffer) {
        const size_t positions = round_up(tokens, VL);
        for (int l = 0; l < config_.layers; l++)
            for (int g = 0; g < kv_.kv_heads; g++)
                for (auto [start, width] : {std::pair{kv_.key_block(cache(slot, l), g, 0), kv_.dim},
                                            std::pair{kv_.value(cache(slot, l), g, 0), kv_.padded}}) {
                    const size_t floats = positions * width;
                    if (kSave) std::copy(start, start + floats, buffer);
                    else std::copy(buffer, buffer + floats, start);
                    buffer += floats;
                }
    }
};

}  // namespace kf
