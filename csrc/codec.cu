// The codec's small kernels: codes to latents, norms, window attention, depthwise convolution, the last convolution,
// and moving each stream's past in and out of its slot. Activations are fp16, time-major; R rows, F frames per row.
//
// A row may name frames that its unit turns out not to have. They are computed from whatever stands in the ring, leave
// no trace in the slot (only `valid` frames move the past on), and their samples are zeros.
#include <common/rotary.cuh>

constexpr int MAX_LAYERS = 32;

struct RowPlan {  // one per row, written by the host
    int slot;
    int first_frame;
    int frames;
    int reset;
};

KF_DEVICE int valid_frames(const RowPlan& plan, const int* frames_done) {
    return min(max(frames_done[plan.slot] - plan.first_frame, 0), plan.frames);
}

struct LookupParams {
    const RowPlan* plan;   // [R]
    const int* codes;      // [slots, pending, K]
    const u16* tables;     // fp16 [sum of codebook sizes, dim]: entries already projected, bias included
    u16* out;              // fp16 [R * F, dim]
    int frames;            // F
    int pending;
    int codebooks;
    int first_size;        // entries of the semantic codebook
    int other_size;        // entries of each residual codebook
    int dim;               // a multiple of 2
};

constexpr int LOOKUP_THREADS = 256;

KF_KERNEL(codec_lookup, LookupParams, LOOKUP_THREADS) {
    int row = blockIdx.x / p.frames, frame = blockIdx.x % p.frames;
    RowPlan plan = p.plan[row];
    int place = (plan.first_frame + frame) % p.pending;
    const int* codes = p.codes + (static_cast<long long>(plan.slot) * p.pending + place) * p.codebooks;
    for (int i = 2 * threadIdx.x; i < p.dim; i += 2 * LOOKUP_THREADS) {
        float low = 0.0f, high = 0.0f;
        for (int k = 0; k < p.codebooks; k++) {
            int size = k == 0 ? p.first_size : p.other_size;
            int entry = (k == 0 ? 0 : p.first_size + (k - 1) * p.other_size) + min(max(codes[k], 0), size - 1);
            u32 pair = *reinterpret_cast<const u32*>(p.tables + static_cast<long long>(entry) * p.dim + i);
            low += f16_low(pair);
            high += f16_high(pair);
        }
        *reinterpret_cast<u32*>(p.out + static_cast<long long>(blockIdx.x) * p.dim + i) = pack_f16_clamped(low, high);
    }
}

struct Past {            // one layer that looks back
    u16* buffer;         // fp16 [R, (past + steps) * channels]
    u16* state;          // fp16 [slots, past * channels]
    int past_values;     // past * channels, a multiple of 8
    int frame_values;    // steps per frame * channels
};

struct PastParams {
    const RowPlan* plan;
    const int* frames_done;  // [slots]
    int* positions;          // [slots] frames the codec has decoded, for RoPE
    int frames;              // F
    Past layers[MAX_LAYERS];
};

constexpr int PAST_THREADS = 256;

// Before the chain: every stream's past to the head of every buffer. Grid (layers, R).
KF_KERNEL(codec_load_past, PastParams, PAST_THREADS) {
    const Past& layer = p.layers[blockIdx.x];
    RowPlan plan = p.plan[blockIdx.y];
    long long row_values = layer.past_values + static_cast<long long>(p.frames) * layer.frame_values;
    uint4* to = reinterpret_cast<uint4*>(layer.buffer + blockIdx.y * row_values);
    const uint4* from = reinterpret_cast<const uint4*>(layer.state + static_cast<long long>(plan.slot) * layer.past_values);
    for (int i = threadIdx.x; i < layer.past_values / 8; i += PAST_THREADS)
        to[i] = plan.reset ? make_uint4(0, 0, 0, 0) : from[i];
    if (blockIdx.x == 0 && threadIdx.x == 0 && plan.reset) p.positions[plan.slot] = 0;
}

// After the chain: the last `past` steps that are real become the stream's past. Grid (layers, R).
KF_KERNEL(codec_save_past, PastParams, PAST_THREADS) {
    const Past& layer = p.layers[blockIdx.x];
    RowPlan plan = p.plan[blockIdx.y];
    int valid = valid_frames(plan, p.frames_done);
    long long row_values = layer.past_values + static_cast<long long>(p.frames) * layer.frame_values;
    const u16* from = layer.buffer + blockIdx.y * row_values + static_cast<long long>(valid) * layer.frame_values;
    u16* to = layer.state + static_cast<long long>(plan.slot) * layer.past_values;
    for (int i = threadIdx.x; i < layer.past_values / 8; i += PAST_THREADS)
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    if (blockIdx.x == 0 && threadIdx.x == 0) p.positions[plan.slot] += valid;
}

struct CodecNormParams {
    const u16* x;         // fp16 [rows, dim]
    const float* weight;  // [dim]
    u16* out;             // fp16 [rows, dim]
    int dim;
    float eps;
};

constexpr int CODEC_NORM_THREADS = 128;

KF_KERNEL(codec_norm, CodecNormParams, CODEC_NORM_THREADS) {
    KF_SHARED(shared);
    long long row = static_cast<long long>(blockIdx.x) * p.dim;
    float squares = 0.0f;
    for (int i = 2 * threadIdx.x; i < p.dim; i += 2 * CODEC_NORM_THREADS) {
        u32 pair = *reinterpret_cast<const u32*>(p.x + row + i);
        squares += f16_low(pair) * f16_low(pair) + f16_high(pair) * f16_high(pair);
    }
    float inverse = rsqrtf(block_sum<CODEC_NORM_THREADS>(squares, reinterpret_cast<float*>(shared)) / p.dim + p.eps);
    for (int i = 2 * threadIdx.x; i < p.dim; i += 2 * CODEC_NORM_THREADS) {
        u32 pair = *reinterpret_cast<const u32*>(p.x + row + i);
        *reinterpret_cast<u32*>(p.out + row + i) =
            pack_f16_clamped(f16_low(pair) * inverse * p.weight[i], f16_high(pair) * inverse * p.weight[i + 1]);
    }
}

struct WindowParams {
    const RowPlan* plan;
    const int* positions;  // [slots]
    const u16* qkv;        // fp16 [R * F, 3 * heads * D]
    const float* inverse;  // [D/2] angle per position
    u16* ring;             // fp16 [slots, 2, ring, heads, D] of this layer: keys, values by position % ring
    u16* out;              // fp16 [R * F, heads * D]
    int frames;            // F
    int heads;
    int head_dim;          // D, even, at most 128
    int window;            // a query sees itself and window - 1 frames before it
    int ring_frames;       // at least window + F
    float scale;           // 1 / sqrt(D)
};

constexpr int WINDOW_THREADS = 128;

// bf16-rounded cosine and sine, as the family's tables.
KF_DEVICE void rotate_pair(float& even, float& odd, int position, float inverse) {
    float angle = static_cast<float>(position) * inverse;
    float cosine = bf16_to_float(float_to_bf16(cosf(angle))), sine = bf16_to_float(float_to_bf16(sinf(angle)));
    float e = even, o = odd;
    even = e * cosine - o * sine;
    odd = o * cosine + e * sine;
}

// One block per (head, row). Shared: q [D], scores [window], reduce [32].
KF_KERNEL(codec_window_attention, WindowParams, WINDOW_THREADS) {
    KF_SHARED(shared);
    float* q = reinterpret_cast<float*>(shared);
    float* scores = q + p.head_dim;
    float* scratch = scores + p.window;
    int head = blockIdx.x, row = blockIdx.y, width = p.heads * p.head_dim, half = p.head_dim / 2;
    int slot = p.plan[row].slot, start = p.positions[slot];
    u16* keys = p.ring + static_cast<long long>(slot) * 2 * p.ring_frames * width + head * p.head_dim;
    u16* values = keys + static_cast<long long>(p.ring_frames) * width;
    for (int i = threadIdx.x; i < p.frames * half; i += WINDOW_THREADS) {
        int frame = i / half, pair = i % half;
        const u16* from = p.qkv + (static_cast<long long>(row) * p.frames + frame) * 3 * width + head * p.head_dim;
        u32 k = *reinterpret_cast<const u32*>(from + width + 2 * pair);
        float even = f16_low(k), odd = f16_high(k);
        rotate_pair(even, odd, start + frame, p.inverse[pair]);
        long long place = static_cast<long long>((start + frame) % p.ring_frames) * width + 2 * pair;
        *reinterpret_cast<u32*>(keys + place) = pack_f16_clamped(even, odd);
        *reinterpret_cast<u32*>(values + place) = *reinterpret_cast<const u32*>(from + 2 * width + 2 * pair);
    }
    for (int frame = 0; frame < p.frames; frame++) {
        __syncthreads();
        int position = start + frame, first = max(0, position - p.window + 1), count = position - first + 1;
        long long at = static_cast<long long>(row) * p.frames + frame;
        for (int pair = threadIdx.x; pair < half; pair += WINDOW_THREADS) {
            u32 bits = *reinterpret_cast<const u32*>(p.qkv + at * 3 * width + head * p.head_dim + 2 * pair);
            float even = f16_low(bits), odd = f16_high(bits);
            rotate_pair(even, odd, position, p.inverse[pair]);
            q[2 * pair] = even * p.scale;
            q[2 * pair + 1] = odd * p.scale;
        }
        __syncthreads();
        float largest = -KF_INFINITY;
        for (int i = threadIdx.x; i < count; i += WINDOW_THREADS) {
            const u16* key = keys + static_cast<long long>((first + i) % p.ring_frames) * width;
            float dot = 0.0f;
            for (int d = 0; d < p.head_dim; d += 2) {
                u32 pair = *reinterpret_cast<const u32*>(key + d);
                dot += q[d] * f16_low(pair) + q[d + 1] * f16_high(pair);
            }
            scores[i] = dot;
            largest = fmaxf(largest, dot);
        }
        largest = block_max<WINDOW_THREADS>(largest, scratch);
        float total = 0.0f;
        for (int i = threadIdx.x; i < count; i += WINDOW_THREADS) {
            scores[i] = expf(scores[i] - largest);
            total += scores[i];
        }
        total = block_sum<WINDOW_THREADS>(total, scratch);
        for (int d = threadIdx.x; d < p.head_dim; d += WINDOW_THREADS) {
            float sum = 0.0f;
            for (int i = 0; i < count; i++)
                sum += scores[i] * ptx::f16_to_float(values[static_cast<long long>((first + i) % p.ring_frames) * width + d]);
            p.out[at * width + head * p.head_dim + d] = static_cast<u16>(pack_f16_clamped(sum / total, 0.0f));
        }
    }
}

struct DepthwiseParams {
    const u16* x;              // fp16 [R, (taps - 1 + steps) * channels]
    const float* weight;       // [taps, channels]
    const float* bias;         // [channels]
    const float* norm_weight;  // [channels]
    const float* norm_bias;
    u16* out;                  // fp16 [R * steps, channels]
    int steps;
    int channels;
    int taps;
    float eps;
};

constexpr int DEPTHWISE_THREADS = 256;

// Depthwise convolution, then LayerNorm over the channels: the front of a ConvNeXt block. Grid (R * steps).
KF_KERNEL(codec_depthwise_norm, DepthwiseParams, DEPTHWISE_THREADS) {
    KF_SHARED(shared);
    float* scratch = reinterpret_cast<float*>(shared);
    float* sums = scratch + 32;  // [channels]
    int row = blockIdx.x / p.steps, step = blockIdx.x % p.steps;
    const u16* x = p.x + (static_cast<long long>(row) * (p.taps - 1 + p.steps) + step) * p.channels;
    float total = 0.0f;
    for (int c = threadIdx.x; c < p.channels; c += DEPTHWISE_THREADS) {
        float sum = p.bias[c];
        for (int t = 0; t < p.taps; t++) sum += p.weight[t * p.channels + c] * ptx::f16_to_float(x[t * p.channels + c]);
        sums[c] = sum;
        total += sum;
    }
    float mean = block_sum<DEPTHWISE_THREADS>(total, scratch) / p.channels, squares = 0.0f;
    for (int c = threadIdx.x; c < p.channels; c += DEPTHWISE_THREADS) squares += (sums[c] - mean) * (sums[c] - mean);
    float inverse = rsqrtf(block_sum<DEPTHWISE_THREADS>(squares, scratch) / p.channels + p.eps);
    for (int c = threadIdx.x; c < p.channels; c += DEPTHWISE_THREADS) {
        float normed = (sums[c] - mean) * inverse * p.norm_weight[c] + p.norm_bias[c];
        p.out[static_cast<long long>(blockIdx.x) * p.channels + c] = static_cast<u16>(pack_f16_clamped(normed, 0.0f));
    }
}

struct SamplesParams {
    const RowPlan* plan;
    const int* frames_done;
    const u16* x;         // fp16 [R, (taps - 1 + samples) * channels]
    const float* weight;  // [taps, channels]
    u16* pcm;             // int16 [R, samples]
    int samples;          // per row
    int frame_samples;
    int channels;         // a multiple of 8
    int taps;
    float bias;
};

constexpr int SAMPLES_THREADS = 128;

// The last convolution (one output channel), tanh, and int16 that clips. One thread per sample; grid (blocks, R).
KF_KERNEL(codec_samples, SamplesParams, SAMPLES_THREADS) {
    KF_SHARED(shared);
    float* weight = reinterpret_cast<float*>(shared);
    for (int i = threadIdx.x; i < p.taps * p.channels; i += SAMPLES_THREADS) weight[i] = p.weight[i];
    __syncthreads();
    int row = blockIdx.y, sample = blockIdx.x * SAMPLES_THREADS + threadIdx.x;
    if (sample >= p.samples) return;
    u16* pcm = p.pcm + static_cast<long long>(row) * p.samples + sample;
    if (sample >= valid_frames(p.plan[row], p.frames_done) * p.frame_samples) {
        *pcm = 0;
        return;
    }
    const u16* x = p.x + (static_cast<long long>(row) * (p.taps - 1 + p.samples) + sample) * p.channels;
    float sum = p.bias;
    for (int i = 0; i < p.taps * p.channels; i += 8) {
        uint4 v = *reinterpret_cast<const uint4*>(x + i);
        sum += f16_low(v.x) * weight[i] + f16_high(v.x) * weight[i + 1] + f16_low(v.y) * weight[i + 2]
               + f16_high(v.y) * weight[i + 3] + f16_low(v.z) * weight[i + 4] + f16_high(v.z) * weight[i + 5]
               + f16_low(v.w) * weight[i + 6] + f16_high(v.w) * weight[i + 7];
    }
    float scaled = rintf(tanhf(sum) * 32767.0f);
    *pcm = static_cast<u16>(static_cast<short>(fminf(fmaxf(scaled, -32768.0f), 32767.0f)));
}
