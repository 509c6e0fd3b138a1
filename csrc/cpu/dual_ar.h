// The DualAR model over slots: prefill, and one frame for any set of slots.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "sampler.h"
#include "transformer.h"

namespace kf {

struct ModelConfig {
    StackConfig slow, fast;
    int32_t slots, vocab_size, codebooks, codebook_size, residual_size;
    int32_t semantic_begin, scale_embeddings, norm_fast_input, has_project_in, pending_frames;
    int32_t alignment_layer, alignment_head;  // layer -1: none
};

constexpr int kWindow = 10;           // repetition-aware sampling looks back so far
constexpr float kRasTemperature = 1.0f, kRasTopP = 0.9f;

class DualAr {
  public:
    DualAr(const ModelConfig& config, Reader& reader) : config_(config) {
        const ModelConfig& c = config;
        const int64_t dim = c.slow.dim, fast_dim = c.fast.dim;
        embeddings_ = reader.take(c.vocab_size * dim, "embeddings");
        codebook_embeddings_ = reader.take((int64_t)c.codebooks * c.codebook_size * dim, "codebook embeddings");
        slow_ = std::make_unique<Stack>(c.slow, c.slots, reader);
        slow_->watch(c.alignment_layer, c.alignment_head);
        slow_norm_ = reader.take(dim, "norm");
        matrix(head_, reader.take((c.codebook_size + 1) * dim, "head"), nullptr, c.codebook_size + 1, dim);
        if (c.has_project_in) {
            const float* w = reader.take(dim * fast_dim, "project_in");
            matrix(project_, w, reader.take(fast_dim, "project_in bias"), fast_dim, dim);
        }
        fast_embeddings_ = reader.take(c.codebook_size * fast_dim, "fast embeddings");
        fast_ = std::make_unique<Stack>(c.fast, c.slots, reader);
        fast_norm_ = reader.take(fast_dim, "fast norm");
        matrix(fast_head_, reader.take(c.residual_size * fast_dim, "fast output"), nullptr, c.residual_size, fast_dim);
        slots_ = std::vector<Slot>(c.slots);
        for (Slot& s : slots_) {
            s.column.resize(1 + c.codebooks);
            s.codes.resize((size_t)c.pending_frames * c.codebooks);
        }
    }

    Stack& slow() { return *slow_; }
    float rounding() const {
        return std::max({slow_->rounding(), fast_->rounding(), head_.rounding, project_.rounding, fast_head_.rounding});
    }

    // columns [1+K][tokens] at positions start.. of the slot. Own scratch: decode may run meanwhile.
    void prefill(int slot, const int32_t* columns, int tokens, int start, Stack::Scratch& scratch) {
        const int dim = config_.slow.dim;
        std::vector<float> x((size_t)tokens * dim);
        std::vector<Row> rows(tokens);
        std::vector<int32_t> column(1 + config_.codebooks);
        for (int t = 0; t < tokens; t++) {
            for (int k = 0; k <= config_.codebooks; k++) column[k] = columns[(size_t)k * tokens + t];
            embed(column.data(), &x[(size_t)t * dim]);
            rows[t] = {slot, start + t};
        }
        slow_->forward(x.data(), rows.data(), tokens, scratch);
    }

    void arm(int slot, const int32_t* column, int position, const Sampling& sampling, int text, int text_tokens) {
        Slot& s = slots_[slot];
        s.column.assign(column, column + 1 + config_.codebooks);
        s.position = position;
        s.sampling = sampling;
        s.text = text, s.text_tokens = text_tokens;
        std::fill(s.window, s.window + kWindow, 0);
        s.frames.store(0);
        s.has_ended = false;
    }

    // One frame for each slot; ended[i]: the model ended instead, now or before; finite[i]: its logits were finite
    // numbers; heard[i]: the token of its text being spoken, or -1. A slot that has ended, or whose logits were not finite, does nothing more until it is armed again.
    void decode(const int32_t* slots, int count, uint8_t* ended, uint8_t* finite, int32_t* heard) {
        const ModelConfig& c = config_;
        x_.resize((size_t)c.slots * c.slow.dim), hidden_.resize(x_.size());
        rows_.resize(2 * c.slots), logits_.resize((size_t)c.slots * (c.codebook_size + 1));
        int live = 0;
        for (int i = 0; i < count; i++) {
            Slot& s = slots_[slots[i]];
            ended[i] = s.has_ended, finite[i] = 1;
            if (s.has_ended) continue;
            embed(s.column.data(), &x_[(size_t)live * c.slow.dim]);
            rows_[live++] = {slots[i], s.position++, s.text, s.text_tokens, &heard[i]};
        }
        slow_->forward(x_.data(), rows_.data(), live, scratch_);
        for (int row = 0; row < live; row++)
            rms_norm(&x_[(size_t)row * c.slow.dim], c.slow.dim, c.slow.norm_eps, slow_norm_,
                     &hidden_[(size_t)row * c.slow.dim]);
        const int width = c.codebook_size + 1;
        head_.run(hidden_.data(), live, c.slow.dim, logits_.data(), width);
        active_.clear();
        for (int i = 0, row = 0; i < count; i++) {
            if (ended[i]) continue;
            Slot& s = slots_[slots[i]];
            const float* logits = &logits_[(size_t)row * width];
            finite[i] = all_finite(logits, width);
            const int token = finite[i] ? draw_semantic(s, logits) : c.codebook_size;
            ended[i] = s.has_ended = token == c.codebook_size;
            if (!s.has_ended) {
                s.column[1] = token;
                active_.push_back({slots[i], row, i});
            }
            row++;
        }
        decode_residuals();
        for (const Active& a : active_) {
            Slot& s = slots_[a.slot];
            if (a.is_finite) finish_frame(s);
            else ended[a.index] = s.has_ended = true, finite[a.index] = 0;
        }
    }

    // Codes [K] of a frame of the slot's unit, or null if the unit has no such frame (yet).
    const int32_t* codes(int slot, int frame) const {
        const Slot& s = slots_[slot];
        if (frame >= s.frames.load(std::memory_order_acquire)) return nullptr;
        return &s.codes[(size_t)(frame % config_.pending_frames) * config_.codebooks];
    }

  private:
    struct Slot {
        std::vector<int32_t> column;  // next input [1+K]
        int position = 0;
        int text = 0, text_tokens = 0;  // positions of the unit's text
        Sampling sampling{};
        int32_t window[kWindow] = {};  // token ids, newest last; zeros never match
        std::atomic<int> frames{0};
        bool has_ended = false;
        std::vector<int32_t> codes;  // ring of frames that wait for the codec

        Slot() = default;
        Slot(const Slot&) {}  // only while the vector is made
    };

    struct Active {
        int slot, row, index;  // row among the live ones, index among the slots asked for
        bool is_finite = true;
    };

    ModelConfig config_;
    const float *embeddings_, *codebook_embeddings_, *slow_norm_, *fast_embeddings_, *fast_norm_;
    std::unique_ptr<Stack> slow_, fast_;
    Linear head_, project_, fast_head_;
    std::vector<Slot> slots_;
    Sampler sampler_;
    Stack::Scratch scratch_, fast_scratch_;
    std::vector<float> x_, hidden_, logits_, fast_x_, fast_hidden_;
    std::vector<Row> rows_;
    std::vector<Active> active_;

    static bool all_finite(const float* logits, int n) {
        return std::all_of(logits, logits + n, [](float v) { return std::isfinite(v); });
    }

    static void matrix(Linear& linear, const float* w, const float* bias, int outputs, int inputs) {
        linear.pack(1, inputs, outputs, [=](int, int i, int o) { return w[(size_t)o * inputs + i]; }, bias);
    }

    // A semantic position adds all codebook rows, and the sum is scaled; a text position is its row alone.
    void embed(const int32_t* column, float* x) const {
        const ModelConfig& c = config_;
        const int dim = c.slow.dim;
        std::copy_n(embeddings_ + (size_t)column[0] * dim, dim, x);
        if (column[0] < c.semantic_begin || column[0] >= c.semantic_begin + c.codebook_size) return;
        for (int k = 0; k < c.codebooks; k++) {
            const float* row = codebook_embeddings_ + ((size_t)k * c.codebook_size + column[1 + k]) * dim;
            for (int i = 0; i < dim; i++) x[i] += row[i];
        }
        if (c.scale_embeddings) {
            const float divisor = std::sqrt((float)(c.codebooks + 1));
            for (int i = 0; i < dim; i++) x[i] /= divisor;
        }
    }

    int draw_semantic(Slot& s, const float* logits) {
        const int n = config_.codebook_size, frame = s.frames.load();
        const int token = sampler_.draw(logits, n + 1, s.sampling, frame, 0);
        const int id = token + config_.semantic_begin;
        if (frame == 0 || token == n || std::find(s.window, s.window + kWindow, id) == s.window + kWindow) return token;
        Sampling fallback = s.sampling;
        fallback.temperature = kRasTemperature, fallback.top_p = kRasTopP;
        return sampler_.draw(logits, n + 1, fallback, frame, config_.codebooks);
    }

    // Codebooks 1.. of all active rows. The slow output and the semantic code enter the fast stack in one pass.
    void decode_residuals() {
        const ModelConfig& c = config_;
        const int dim = c.fast.dim, count = (int)active_.size();
        if (!count) return;
        fast_x_.resize((size_t)2 * c.slots * dim), fast_hidden_.resize((size_t)c.slots * dim);
        for (int a = 0; a < count; a++) {
            const float* input = c.norm_fast_input ? hidden_.data() : x_.data();
            input += (size_t)active_[a].row * c.slow.dim;
            float* first = &fast_x_[(size_t)2 * a * dim];
            if (c.has_project_in) project_.run(input, 1, c.slow.dim, first, dim);
            else std::copy_n(input, dim, first);
            std::copy_n(fast_embeddings_ + (size_t)slots_[active_[a].slot].column[1] * dim, dim, first + dim);
            rows_[2 * a] = {active_[a].slot, 0}, rows_[2 * a + 1] = {active_[a].slot, 1};
        }
        fast_->forward(fast_x_.data(), rows_.data(), 2 * count, fast_scratch_);
        for (int a = 0; a < count; a++)
            std::copy_n(&fast_x_[(size_t)(2 * a + 1) * dim], dim, &fast_x_[(size_t)a * dim]);
        for (int codebook = 1;; codebook++) {
            draw_codes(codebook, count);
            if (codebook + 1 == c.codebooks) return;
            for (int a = 0; a < count; a++) {
                const int code = slots_[active_[a].slot].column[1 + codebook];
                std::copy_n(fast_embeddings_ + (size_t)code * dim, dim, &fast_x_[(size_t)a * dim]);
                rows_[a] = {active_[a].slot, codebook + 1};
            }
            fast_->forward(fast_x_.data(), rows_.data(), count, fast_scratch_);
        }
    }

    void draw_codes(int codebook, int count) {
        const ModelConfig& c = config_;
        const int dim = c.fast.dim;
        for (int a = 0; a < count; a++)
            rms_norm(&fast_x_[(size_t)a * dim], dim, c.fast.norm_eps, fast_norm_, &fast_hidden_[(size_t)a * dim]);
        fast_head_.run(fast_hidden_.data(), count, dim, logits_.data(), c.residual_size);
        for (int a = 0; a < count; a++) {
            Slot& s = slots_[active_[a].slot];
            const float* logits = &logits_[(size_t)a * c.residual_size];
            active_[a].is_finite &= all_finite(logits, c.residual_size);
            // Any code will do for a row that is lost.
            s.column[1 + codebook] =
                active_[a].is_finite ? sampler_.draw(logits, c.residual_size, s.sampling, s.frames.load(), codebook) : 0;
        }
    }

    // The column is complete: remember its token (the first frame's never is), and hand the codes to the codec.
    void finish_frame(Slot& s) {
        const int frame = s.frames.load(), id = config_.semantic_begin + s.column[1];
        if (frame > 0) {
            std::copy(s.window + 1, s.window + kWindow, s.window);
            s.window[kWindow - 1] = id;
        }
        s.column[0] = id;
        std::copy(s.column.begin() + 1, s.column.end(),
                  s.codes.begin() + (size_t)(frame % config_.pending_frames) * config_.codebooks);
        s.frames.store(frame + 1, std::memory_order_release);
    }
};

}  // namespace kf
