// Training's view of a causal convolution: the rows that its one matrix product reads, with the Snake in front applied.
// A row of step t holds, tap after tap, the inputs of steps t - (K - 1) d … t; before the first step stand zeros.
// bf16, time-major [B, T, C]. A thread owns eight channels of a step.
#include <common/numeric.cuh>

constexpr int TAPS_THREADS = 256;

struct Octet { float v[8]; };

KF_DEVICE Octet load_octet(const u16* from) {
    uint4 raw = *reinterpret_cast<const uint4*>(from);
    return {{bf16_low(raw.x), bf16_high(raw.x), bf16_low(raw.y), bf16_high(raw.y),
             bf16_low(raw.z), bf16_high(raw.z), bf16_low(raw.w), bf16_high(raw.w)}};
}

KF_DEVICE uint4 pack_octet(const Octet& o) {
    return make_uint4(ptx::pack_bf16(o.v[0], o.v[1]), ptx::pack_bf16(o.v[2], o.v[3]),
                      ptx::pack_bf16(o.v[4], o.v[5]), ptx::pack_bf16(o.v[6], o.v[7]));
}

struct TapsParams {
    const u16* x;        // bf16 [B, T, C]
    const float* alpha;  // [C], or null: no Snake
    u16* rows;           // bf16 [B, T, K, C]
    int batch, steps, channels, taps, dilation;  // channels: a multiple of 8
};

// Grid: enough threads for batch * steps * channels / 8.
KF_KERNEL(taps_gather, TapsParams, TAPS_THREADS) {
    int groups = p.channels / 8;
    long long index = static_cast<long long>(blockIdx.x) * TAPS_THREADS + threadIdx.x;
    if (index >= static_cast<long long>(p.batch) * p.steps * groups) return;
    int c = static_cast<int>(index % groups) * 8, t = static_cast<int>(index / groups % p.steps);
    long long row = index / groups;  // of all the clips' steps
    Octet o = load_octet(p.x + row * p.channels + c);
    if (p.alpha) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float a = p.alpha[c + i], s = sinf(a * o.v[i]);
            o.v[i] += s * s / (a + 1e-9f);
        }
    }
    uint4 packed = pack_octet(o);
    for (int k = 0; k < p.taps; k++) {
        int later = (p.taps - 1 - k) * p.dilation;  // the step that sees this one in tap k
        if (t + later < p.steps)
            *reinterpret_cast<uint4*>(p.rows + ((row + later) * p.taps + k) * p.channels + c) = packed;
        if (t < later)
            *reinterpret_cast<uint4*>(p.rows + (row * p.taps + k) * p.channels + c) = make_uint4(0, 0, 0, 0);
    }
}

struct TapsGradParams {
    const u16* x;        // bf16 [B, T, C]
    const float* alpha;  // [C], or null
    const u16* rows;     // bf16 [B, T, K, C]: gradient of the rows
    u16* out;            // bf16 [B, T, C]: gradient of x
    float* alpha_parts;  // [blocks, C]: each block's share of alpha's gradient, or null
    int batch, steps, channels, taps, dilation;  // channels: at most 8 * threads
    int block_rows;      // steps of a block
};

// Grid: batch * steps / block_rows blocks.
KF_KERNEL(taps_gradient, TapsGradParams, TAPS_THREADS) {
    KF_SHARED(shared);
    float* sums = reinterpret_cast<float*>(shared);  // [threads, 8]
    int groups = p.channels / 8, together = TAPS_THREADS / groups;
    int c = threadIdx.x % groups * 8, lane_row = threadIdx.x / groups;
    long long first = static_cast<long long>(blockIdx.x) * p.block_rows;
    long long end = min(first + p.block_rows, static_cast<long long>(p.batch) * p.steps);
    Octet alpha_sum = {};
    for (long long row = first + lane_row; row < end && lane_row < together; row += together) {
        int t = static_cast<int>(row % p.steps);
        Octet g = {};
        for (int k = 0; k < p.taps; k++) {
            int later = (p.taps - 1 - k) * p.dilation;
            if (t + later >= p.steps) continue;
            Octet part = load_octet(p.rows + ((row + later) * p.taps + k) * p.channels + c);
#pragma unroll
            for (int i = 0; i < 8; i++) g.v[i] += part.v[i];
        }
        if (p.alpha) {
            Octet x = load_octet(p.x + row * p.channels + c);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float a = p.alpha[c + i], inverse = 1.0f / (a + 1e-9f), s = sinf(a * x.v[i]);
                float slope = 2.0f * s * cosf(a * x.v[i]) * inverse;  // of sin^2(a x) / a, over a for x and over x for a
                alpha_sum.v[i] += g.v[i] * (x.v[i] * slope - s * s * inverse * inverse);
                g.v[i] *= 1.0f + a * slope;
            }
        }
        *reinterpret_cast<uint4*>(p.out + row * p.channels + c) = pack_octet(g);
    }
    if (!p.alpha) return;
#pragma unroll
    for (int i = 0; i < 8; i++) sums[threadIdx.x * 8 + i] = alpha_sum.v[i];
    __syncthreads();
    for (int channel = threadIdx.x; channel < p.channels; channel += TAPS_THREADS) {
        float total = 0.0f;
        for (int r = 0; r < together; r++) total += sums[(r * groups + channel / 8) * 8 + channel % 8];
        p.alpha_parts[static_cast<long long>(blockIdx.x) * p.channels + channel] = total;
    }
}
