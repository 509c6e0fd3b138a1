// The codec's decoder as a stream per slot: codes in, samples out, exactly what a whole decode would give.
//
// Rows are channels-last, [time][channels]. A layer that looks back keeps its last inputs per slot; a call puts them
// in front of the chunk, runs, and keeps the new last ones.
#pragma once

#include <vector>

#include "linear.h"
#include "reader.h"
#include "transformer.h"

namespace kf {

struct CodecConfig {
    int32_t latent, width, codebooks, layers, heads, ffn, window;
    int32_t rates, upsamples;  // how many of the two lists below are used
    int32_t rate[8], upsample[8], codebook_size[32];
    float rope_base, norm_eps;
};

// Where a layer's memory lies in a slot's state.
struct Past {
    size_t offset = 0;
    int rows = 0, width = 0;
};

// One slot's stream while it is decoded, and the scratch to do it in.
class Stream {
  public:
    explicit Stream(std::vector<float>& state) : state_(state) {}

    // Rows for a layer's input: its past in front, room for `rows` behind; returns where the new rows begin.
    float* open(const Past& past, int rows) {
        buffer_.resize((size_t)(past.rows + rows) * past.width);
        std::copy_n(&state_[past.offset], (size_t)past.rows * past.width, buffer_.begin());
        return buffer_.data() + (size_t)past.rows * past.width;
    }
    // The whole buffer, once the new rows are filled in; remembers the last ones.
    const float* close(const Past& past, int rows) {
        std::copy_n(buffer_.data() + (size_t)rows * past.width, (size_t)past.rows * past.width, &state_[past.offset]);
        return buffer_.data();
    }
    std::vector<float>& state() { return state_; }

  private:
    std::vector<float>& state_;
    std::vector<float> buffer_;
};

class StateLayout {
  public:
    Past add(int rows, int width) {
        const Past past{floats, rows, width};
        floats += (size_t)rows * width;
        return past;
    }
    size_t floats = 0;
};

inline void snake(const float* x, float* y, int rows, int width, const float* alpha, const float* inverse) {
    for (int t = 0; t < rows; t++) {
        const float* in = x + (size_t)t * width;
        float* out = y + (size_t)t * width;
        int i = 0;
        for (; i + VL <= width; i += VL) {
            const vf v = load(in + i);
            store(out + i, fma(sin_squared(v * load(alpha + i)), load(inverse + i), v));
        }
        for (; i < width; i++) {
            const float s = sin_squared(splat(in[i] * alpha[i]))[0];
            out[i] = std::fma(s, inverse[i], in[i]);
        }
    }
}

class SnakeWeights {
  public:
    void read(Reader& reader, int width) {
        const float* a = reader.take(width, "snake alpha");
        alpha.assign(a, a + width);
        for (float v : alpha) inverse.push_back(1.0f / (v + 1e-9f));
    }
    std::vector<float> alpha, inverse;
};

// Causal convolution of rows [T][in] -> [T][out].
class Conv {
  public:
    void read(Reader& reader, int inputs, int outputs, int kernel, int dilation, StateLayout& layout) {
        const float* w = reader.take((int64_t)outputs * inputs * kernel, "conv weight");
        const float* bias = reader.take(outputs, "conv bias");
        linear_.pack(kernel, inputs, outputs,
                     [=](int tap, int i, int o) { return w[((size_t)o * inputs + i) * kernel + tap]; }, bias);
        past_ = layout.add((kernel - 1) * dilation, inputs);
        dilation_ = dilation;
    }
    float* open(Stream& s, int rows) const { return s.open(past_, rows); }
    void run(Stream& s, int rows, float* y, bool add = false) const {
        linear_.run(s.close(past_, rows), rows, linear_.inputs, y, linear_.outputs, add, dilation_);
    }
    float rounding() const { return linear_.rounding; }

  private:
    Linear linear_;
    Past past_;
    int dilation_ = 1;
};

// Transposed convolution with kernel s or 2s: [T][in] -> [T * s][out], as one or two taps of s * out columns.
class ConvTranspose {
  public:
    void read(Reader& reader, int inputs, int outputs, int kernel, int stride, StateLayout& layout) {
        const float* w = reader.take((int64_t)inputs * outputs * kernel, "transposed conv weight");
        const float* b = reader.take(outputs, "transposed conv bias");
        std::vector<float> bias;
        for (int j = 0; j < stride; j++) bias.insert(bias.end(), b, b + outputs);
        const int taps = kernel / stride;
        linear_.pack(taps, inputs, stride * outputs,
                     [=](int tap, int i, int column) {
                         // The older input (tap 0 of two) meets the kernel's second half.
                         const int j = column / outputs + (taps - 1 - tap) * stride, o = column % outputs;
                         return w[((size_t)i * outputs + o) * kernel + j];
                     },
                     bias.data());
        past_ = layout.add(taps - 1, inputs);
    }
    float* open(Stream& s, int rows) const { return s.open(past_, rows); }
    void run(Stream& s, int rows, float* y) const {
        linear_.run(s.close(past_, rows), rows, linear_.inputs, y, linear_.outputs);
    }
    float rounding() const { return linear_.rounding; }

  private:
    Linear linear_;
    Past past_;
};

// Depthwise conv k7, LayerNorm, up, GELU, down, scaled, plus the input; in place on [T][C].
class ConvNeXt {
  public:
    void read(Reader& reader, int width, StateLayout& layout) {
        width_ = width;
        const float* w = reader.take((int64_t)width * kKernel, "dwconv weight");
        depthwise_.resize((size_t)kKernel * width);
        for (int c = 0; c < width; c++)
            for (int k = 0; k < kKernel; k++) depthwise_[(size_t)k * width + c] = w[(size_t)c * kKernel + k];
        bias_ = reader.take(width, "dwconv bias");
        norm_ = reader.take(width, "norm weight"), norm_bias_ = reader.take(width, "norm bias");
        const float* up = reader.take((int64_t)4 * width * width, "pwconv1 weight");
        up_.pack(1, width, 4 * width, [=](int, int i, int o) { return up[(size_t)o * width + i]; },
                 reader.take(4 * width, "pwconv1 bias"));
        const float* down = reader.take((int64_t)4 * width * width, "pwconv2 weight");
        down_.pack(1, 4 * width, width, [=](int, int i, int o) { return down[(size_t)o * 4 * width + i]; },
                   reader.take(width, "pwconv2 bias"));
        gamma_ = reader.take(width, "gamma");
        past_ = layout.add(kKernel - 1, width);
    }

    void run(Stream& s, float* x, int rows) const {
        const int C = width_;
        std::copy_n(x, (size_t)rows * C, s.open(past_, rows));
        const float* in = s.close(past_, rows);
        std::vector<float> y((size_t)rows * C), up((size_t)rows * 4 * C);
        for (int t = 0; t < rows; t++) {
            float* row = &y[(size_t)t * C];
            std::copy_n(bias_, C, row);
            for (int k = 0; k < kKernel; k++)
                for (int c = 0; c < C; c++) row[c] += in[(size_t)(t + k) * C + c] * depthwise_[(size_t)k * C + c];
            layer_norm(row);
        }
        up_.run(y.data(), rows, C, up.data(), 4 * C);
        for (float& v : up) v = 0.5f * v * (1.0f + std::erf(v * 0.707106781f));
        down_.run(up.data(), rows, 4 * C, y.data(), C);
        for (int t = 0; t < rows; t++)
            for (int c = 0; c < C; c++) x[(size_t)t * C + c] += gamma_[c] * y[(size_t)t * C + c];
    }
    float rounding() const { return std::max(up_.rounding, down_.rounding); }

  private:
    static constexpr int kKernel = 7;
    int width_ = 0;
    std::vector<float> depthwise_;
    const float *bias_, *norm_, *norm_bias_, *gamma_;
    Linear up_, down_;
    Past past_;

    void layer_norm(float* x) const {
        float mean = 0.0f, variance = 0.0f;
        for (int c = 0; c < width_; c++) mean += x[c];
        mean /= width_;
        for (int c = 0; c < width_; c++) variance += (x[c] - mean) * (x[c] - mean);
        const float scale = 1.0f / std::sqrt(variance / width_ + 1e-6f);
        for (int c = 0; c < width_; c++) x[c] = (x[c] - mean) * scale * norm_[c] + norm_bias_[c];
    }
};

// The window-limited transformer at frame rate. State per layer: keys and values of the last window-1 frames; and
// the frame's absolute position, kept as a float count next to them.
class WindowTransformer {
  public:
    void read(Reader& reader, const CodecConfig& c, StateLayout& layout) {
        config_ = c;
        position_ = layout.add(1, 1);
        for (int l = 0; l < c.layers; l++) {
            Layer layer;
            layer.attention_norm = reader.take(c.latent, "attention_norm");
            matrix(layer.wqkv, reader, 3 * c.latent, c.latent, "wqkv");
            matrix(layer.wo, reader, c.latent, c.latent, "wo");
            layer.attention_scale = reader.take(c.latent, "attention scale");
            layer.ffn_norm = reader.take(c.latent, "ffn_norm");
            matrix(layer.w13, reader, 2 * c.ffn, c.latent, "w1 and w3");
            matrix(layer.w2, reader, c.latent, c.ffn, "w2");
            layer.ffn_scale = reader.take(c.latent, "ffn scale");
            layer.kv = layout.add(c.window - 1, 2 * c.latent);
            layers_.push_back(std::move(layer));
        }
        norm_ = reader.take(c.latent, "norm");
    }

    void run(Stream& s, float* x, int frames) const {
        const int C = config_.latent;
        float& position = s.state()[position_.offset];
        const int first = (int)position;
        position += frames;
        std::vector<float> normed((size_t)frames * C), qkv((size_t)frames * 3 * C), out((size_t)frames * C),
            hidden((size_t)frames * 2 * config_.ffn);
        for (const Layer& layer : layers_) {
            for (int t = 0; t < frames; t++)
                rms_norm(x + (size_t)t * C, C, config_.norm_eps, layer.attention_norm, &normed[(size_t)t * C]);
            layer.wqkv.run(normed.data(), frames, C, qkv.data(), 3 * C);
            attend(s, layer, qkv.data(), frames, first, normed.data());
            layer.wo.run(normed.data(), frames, C, out.data(), C);
            add_scaled(x, out.data(), layer.attention_scale, frames);
            for (int t = 0; t < frames; t++)
                rms_norm(x + (size_t)t * C, C, config_.norm_eps, layer.ffn_norm, &normed[(size_t)t * C]);
            layer.w13.run(normed.data(), frames, C, hidden.data(), 2 * config_.ffn);
            for (int t = 0; t < frames; t++) {
                float* h = &hidden[(size_t)t * 2 * config_.ffn];
                silu_times(h, h + config_.ffn, config_.ffn);
            }
            layer.w2.run(hidden.data(), frames, 2 * config_.ffn, out.data(), C);
            add_scaled(x, out.data(), layer.ffn_scale, frames);
        }
        for (int t = 0; t < frames; t++) rms_norm(x + (size_t)t * C, C, config_.norm_eps, norm_, x + (size_t)t * C);
    }

    float rounding() const {
        float most = 0.0f;
        for (const Layer& l : layers_)
            most = std::max({most, l.wqkv.rounding, l.wo.rounding, l.w13.rounding, l.w2.rounding});
        return most;
    }

  private:
    struct Layer {
        Linear wqkv, wo, w13, w2;
        const float *attention_norm, *ffn_norm, *attention_scale, *ffn_scale;
        Past kv;  // rows of [k | v]
    };
    CodecConfig config_;
    std::vector<Layer> layers_;
    const float* norm_;
    Past position_;

    static void matrix(Linear& linear, Reader& reader, int outputs, int inputs, const char* what) {
        const float* w = reader.take((int64_t)outputs * inputs, what);
        linear.pack(1, inputs, outputs, [=](int, int i, int o) { return w[(size_t)o * inputs + i]; }, nullptr);
    }

    void add_scaled(float* x, const float* y, const float* gamma, int frames) const {
        const int C = config_.latent;
        for (int t = 0; t < frames; t++)
            for (int c = 0; c < C; c++) x[(size_t)t * C + c] += gamma[c] * y[(size_t)t * C + c];
    }

    // cos and sin rounded to bf16, as the family's tables are.
    void rotate(float* x, int position) const {
        const int D = config_.latent / config_.heads;
        for (int i = 0; i < D; i += 2) {
            const float angle = position * std::pow(config_.rope_base, -(float)i / D);
            const float cos = to_bf16(std::cos(angle)), sin = to_bf16(std::sin(angle));
            const float even = x[i], odd = x[i + 1];
            x[i] = even * cos - odd * sin;
            x[i + 1] = odd * cos + even * sin;
        }
    }

    static float to_bf16(float x) {
        uint32_t bits;
        std::memcpy(&bits, &x, 4);
        bits += 0x7FFF + ((bits >> 16) & 1);
        bits &= 0xFFFF0000u;
        std::memcpy(&x, &bits, 4);
        return x;
    }

    void attend(Stream& s, const Layer& layer, float* qkv, int frames, int first, float* out) const {
        const int C = config_.latent, H = config_.heads, D = C / H, W = config_.window;
        float* rows = s.open(layer.kv, frames);
        for (int t = 0; t < frames; t++) {
            float* row = qkv + (size_t)t * 3 * C;
            for (int h = 0; h < 2 * H; h++) rotate(row + h * D, first + t);
            std::copy_n(row + C, 2 * C, rows + (size_t)t * 2 * C);
        }
        const float* kv = s.close(layer.kv, frames);  // row W-1+t is frame t of the chunk
        std::vector<float> scores(W);
        for (int t = 0; t < frames; t++)
            for (int h = 0; h < H; h++) {
                const int oldest = std::max(0, W - 1 - (first + t));  // frames before the start do not exist
                const float* q = qkv + (size_t)t * 3 * C + h * D;
                float most = -INFINITY, total = 0.0f;
                for (int w = oldest; w < W; w++) {
                    const float* k = kv + (size_t)(t + w) * 2 * C + h * D;
                    float dot = 0.0f;
                    for (int d = 0; d < D; d++) dot = std::fma(q[d], k[d], dot);
                    scores[w] = dot / std::sqrt((float)D);
                    most = std::max(most, scores[w]);
                }
                for (int w = oldest; w < W; w++) total += scores[w] = std::exp(scores[w] - most);
                float* o = out + (size_t)t * C + h * D;
                std::fill_n(o, D, 0.0f);
                for (int w = oldest; w < W; w++) {
                    const float* v = kv + (size_t)(t + w) * 2 * C + C + h * D;
                    for (int d = 0; d < D; d++) o[d] = std::fma(scores[w] / total, v[d], o[d]);
                }
            }
    }
};

// Snake, dilated conv k7, Snake, conv k1, plus the input; in place on [T][C].
class ResidualUnit {
  public:
    void read(Reader& reader, int width, int dilation, StateLayout& layout) {
        width_ = width;
        first_.read(reader, width);
        conv7_.read(reader, width, width, 7, dilation, layout);
        second_.read(reader, width);
        conv1_.read(reader, width, width, 1, 1, layout);
    }
    void run(Stream& s, float* x, int rows, std::vector<float>& y) const {
        snake(x, conv7_.open(s, rows), rows, width_, first_.alpha.data(), first_.inverse.data());
        y.resize((size_t)rows * width_);
        conv7_.run(s, rows, y.data());
        snake(y.data(), conv1_.open(s, rows), rows, width_, second_.alpha.data(), second_.inverse.data());
        conv1_.run(s, rows, x, true);
    }
    float rounding() const { return std::max(conv7_.rounding(), conv1_.rounding()); }

  private:
    int width_ = 0;
    SnakeWeights first_, second_;
    Conv conv7_, conv1_;
};

class CodecDecoder {
  public:
    CodecDecoder(const CodecConfig& c, int slots, Reader& reader) : config_(c) {
        for (int k = 0; k < c.codebooks; k++)
            tables_.push_back(reader.take((int64_t)c.codebook_size[k] * c.latent, "codebook table"));
        transformer_.read(reader, c, layout_);
        upsamples_.resize(c.upsamples), nexts_.resize(c.upsamples);
        for (int u = 0; u < c.upsamples; u++) {
            upsamples_[u].read(reader, c.latent, c.latent, c.upsample[u], c.upsample[u], layout_);
            nexts_[u].read(reader, c.latent, layout_);
        }
        first_.read(reader, c.latent, c.width, 7, 1, layout_);
        blocks_.resize(c.rates);
        int width = c.width;
        for (int b = 0; b < c.rates; b++, width /= 2) {
            blocks_[b].snake.read(reader, width);
            blocks_[b].up.read(reader, width, width / 2, 2 * c.rate[b], c.rate[b], layout_);
            for (int u = 0, dilation = 1; u < 3; u++, dilation *= 3)
                blocks_[b].units[u].read(reader, width / 2, dilation, layout_);
        }
        last_snake_.read(reader, width);
        last_.read(reader, width, 1, 7, 1, layout_);
        states_.assign(slots, std::vector<float>(layout_.floats, 0.0f));
    }

    void reset(int slot) { std::fill(states_[slot].begin(), states_[slot].end(), 0.0f); }

    // codes: frames pointers to [K]; samples: frames * hop floats in [-1, 1].
    void decode(int slot, const int32_t* const* codes, int frames, float* samples) {
        const CodecConfig& c = config_;
        Stream s(states_[slot]);
        std::vector<float> x((size_t)frames * c.latent, 0.0f), y, scratch;
        for (int t = 0; t < frames; t++)
            for (int k = 0; k < c.codebooks; k++) {
                const int code = std::clamp(codes[t][k], 0, c.codebook_size[k] - 1);
                const float* row = tables_[k] + (size_t)code * c.latent;
                for (int i = 0; i < c.latent; i++) x[(size_t)t * c.latent + i] += row[i];
            }
        transformer_.run(s, x.data(), frames);
        int rows = frames;
        for (int u = 0; u < c.upsamples; u++) {
            std::copy_n(x.data(), (size_t)rows * c.latent, upsamples_[u].open(s, rows));
            y.resize((size_t)rows * c.upsample[u] * c.latent);
            upsamples_[u].run(s, rows, y.data());
            rows *= c.upsample[u];
            nexts_[u].run(s, y.data(), rows);
            x.swap(y);
        }
        std::copy_n(x.data(), (size_t)rows * c.latent, first_.open(s, rows));
        y.resize((size_t)rows * c.width);
        first_.run(s, rows, y.data());
        x.swap(y);
        int width = c.width;
        for (int b = 0; b < c.rates; b++) {
            const Block& block = blocks_[b];
            snake(x.data(), block.up.open(s, rows), rows, width, block.snake.alpha.data(), block.snake.inverse.data());
            width /= 2;
            y.resize((size_t)rows * c.rate[b] * width);
            block.up.run(s, rows, y.data());
            rows *= c.rate[b];
            for (const ResidualUnit& unit : block.units) unit.run(s, y.data(), rows, scratch);
            x.swap(y);
        }
        snake(x.data(), last_.open(s, rows), rows, width, last_snake_.alpha.data(), last_snake_.inverse.data());
        last_.run(s, rows, samples);
        for (int i = 0; i < rows; i++) samples[i] = std::tanh(samples[i]);
    }

    float rounding() const {
        float most = std::max({transformer_.rounding(), first_.rounding(), last_.rounding()});
        for (const auto& u : upsamples_) most = std::max(most, u.rounding());
        for (const auto& n : nexts_) most = std::max(most, n.rounding());
        for (const auto& b : blocks_) {
            most = std::max(most, b.up.rounding());
            for (const auto& unit : b.units) most = std::max(most, unit.rounding());
        }
        return most;
    }

  private:
    struct Block {
        SnakeWeights snake;
        ConvTranspose up;
        ResidualUnit units[3];
    };
    CodecConfig config_;
    StateLayout layout_;
    std::vector<const float*> tables_;
    WindowTransformer transformer_;
    std::vector<ConvTranspose> upsamples_;
    std::vector<ConvNeXt> nexts_;
    Conv first_, last_;
    std::vector<Block> blocks_;
    SnakeWeights last_snake_;
    std::vector<std::vector<float>> states_;
};

}  // namespace kf
