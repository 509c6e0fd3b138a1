// The C interface that engine/backends/native.py calls. Tensors stay owned by the caller and must outlive the model.
//
// Threads: kf_prefill, kf_prefix and kf_arm on the prefill thread; kf_decode on the AR stream; kf_vocode on the codec
// stream. The three may run at the same time as long as no two of them touch the same slot, except that kf_vocode
// may read frames of a slot that kf_decode has finished.
#include "codec.h"
#include "dual_ar.h"

using namespace kf;

namespace {

struct Model {
    ModelConfig config;
    CodecConfig codec_config;
    std::unique_ptr<DualAr> ar;
    std::unique_ptr<CodecDecoder> codec;
    Stack::Scratch prefill_scratch{std::thread::hardware_concurrency() > 1};
    std::vector<float> samples;
    int hop = 1;
};

}  // namespace

extern "C" {

// Returns null and writes a message when the tensors do not fit the configuration.
void* kf_create(const ModelConfig* config, const CodecConfig* codec, const Tensor* tensors, int32_t count, char* error,
                int32_t error_size) {
    try {
        auto model = std::make_unique<Model>();
        model->config = *config, model->codec_config = *codec;
        Reader reader(tensors, count);
        model->ar = std::make_unique<DualAr>(*config, reader);
        model->codec = std::make_unique<CodecDecoder>(*codec, config->slots, reader);
        reader.finish();
        for (int i = 0; i < codec->rates; i++) model->hop *= codec->rate[i];
        for (int i = 0; i < codec->upsamples; i++) model->hop *= codec->upsample[i];
        return model.release();
    } catch (const std::exception& e) {
        std::strncpy(error, e.what(), error_size - 1);
        error[error_size - 1] = 0;
        return nullptr;
    }
}

void kf_destroy(void* handle) { delete static_cast<Model*>(handle); }

// The largest change that rounding to fp16 made to a weight.
float kf_rounding(void* handle) {
    auto* m = static_cast<Model*>(handle);
    return std::max(m->ar->rounding(), m->codec->rounding());
}

// `two_threads`: nothing else is running, so the work may be split.
void kf_prefill(void* handle, int32_t slot, const int32_t* columns, int32_t tokens, int32_t start,
                int32_t two_threads) {
    auto* m = static_cast<Model*>(handle);
    m->prefill_scratch.team.use_helper(two_threads);
    m->ar->prefill(slot, columns, tokens, start, m->prefill_scratch);
}

int64_t kf_prefix_floats(void* handle, int32_t tokens) {
    return static_cast<Model*>(handle)->ar->slow().prefix_floats(tokens);
}

void kf_save_prefix(void* handle, int32_t slot, int32_t tokens, float* out) {
    static_cast<Model*>(handle)->ar->slow().save_prefix(slot, tokens, out);
}

void kf_load_prefix(void* handle, int32_t slot, int32_t tokens, const float* in) {
    static_cast<Model*>(handle)->ar->slow().load_prefix(slot, tokens, in);
}

void kf_arm(void* handle, int32_t slot, const int32_t* column, int32_t position, float temperature, float top_p,
            int32_t top_k, uint64_t seed, int32_t text, int32_t text_tokens) {
    static_cast<Model*>(handle)->ar->arm(slot, column, position, {temperature, top_p, top_k, seed}, text, text_tokens);
}

void kf_decode(void* handle, const int32_t* slots, int32_t count, uint8_t* ended, uint8_t* finite, int32_t* heard) {
    static_cast<Model*>(handle)->ar->decode(slots, count, ended, finite, heard);
}

// Frames first .. first + frames of the slot's unit -> int16 samples. Frames that the unit does not have leave no
// trace in the state; their samples are zeros.
void kf_vocode(void* handle, int32_t slot, int32_t first, int32_t frames, int32_t reset, int16_t* out) {
    auto* m = static_cast<Model*>(handle);
    if (reset) m->codec->reset(slot);
    std::vector<const int32_t*> codes;
    for (int f = first; f < first + frames; f++) {
        const int32_t* frame = m->ar->codes(slot, f);
        if (!frame) break;
        codes.push_back(frame);
    }
    const int valid = (int)codes.size() * m->hop;
    if (valid) {
        m->samples.resize(valid);
        m->codec->decode(slot, codes.data(), (int)codes.size(), m->samples.data());
        for (int i = 0; i < valid; i++)
            out[i] = (int16_t)std::clamp(std::nearbyint(m->samples[i] * 32767.0f), -32768.0f, 32767.0f);
    }
    std::fill(out + valid, out + (size_t)frames * m->hop, (int16_t)0);
}

}  // extern "C"
