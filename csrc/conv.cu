// Causal convolution over time as a matrix product on the tensor cores: fp16 in, fp32 sums, fused epilogue.
//
// Everything heavy in the codec is this one kernel: dilated convolutions (taps rows of the input, dilation apart),
// transposed ones (kernel 2s, stride s: two taps, s * C outputs per input step, which in time-major layout already
// are the s output steps), and plain projections (one tap). No im2col: the A operand is read from the input at
// shifted rows. Input rows begin with the stream's past, so a chunk needs no special case.
//
// Tiles BM x BN x BK over WARPS_M x WARPS_N warps, STAGES deep with cp.async. `splits` blocks share a tile's K range
// where there are too few tiles to fill the device; the last to arrive adds the parts in order, so the sum does not
// depend on timing.
#include <common/numeric.cuh>

constexpr int BM = KF_BM, BN = KF_BN, BK = KF_BK, STAGES = KF_STAGES;
constexpr int WARPS_M = KF_WARPS_M, WARPS_N = KF_WARPS_N;
constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int TILES_M = BM / WARPS_M / 16, TILES_N = BN / WARPS_N / 8;
constexpr int CHUNK = 8;  // fp16 values in 16 bytes
constexpr int ROW_CHUNKS = BK / CHUNK;
constexpr int STAGE_VALUES = (BM + BN) * BK;
static_assert(BK == 32 || BK == 64, "the swizzle knows rows of 64 and 128 bytes");
static_assert(TILES_N % 2 == 0, "B fragments are loaded two tiles at a time");
static_assert(BM % (16 * WARPS_M) == 0 && BN % (8 * WARPS_N) == 0, "warps must share the tile evenly");

enum Activation { NONE = 0, GELU = 1, SWIGLU = 2 };

struct ConvParams {
    const u16* x;            // fp16 [R, row_values]: each row `past` steps and `steps` steps of `channels`
    const u16* weight;       // fp16 [outputs, taps * channels], taps from old to new
    const float* bias;       // [outputs] or null
    const u16* residual;     // fp16 [R, residual_row_values] or null, read at (step, output)
    const float* residual_scale;  // [outputs] or null: out = residual + scale * (sum + bias)
    u16* out;                // fp16 [R, out_row_values] or null, at out_offset within a row
    u16* out_snake;          // fp16, the same value after Snake, or null
    const float* alpha;      // [outputs] for Snake
    float* parts;            // [splits, R * steps, outputs] where splits > 1
    u32* arrivals;           // one per tile, zero, and zero again afterwards
    long long row_values, residual_row_values, out_row_values, snake_row_values;
    int residual_offset, out_offset, snake_offset;  // in values, within a row
    int rows;                // R
    int steps;               // output steps per row
    int channels;            // a multiple of 8
    int taps;
    int dilation;
    int outputs;             // a multiple of 8
    int splits;
    int activation;
};


KF_DEVICE int swizzled(int row, int chunk) {
    int mixed = BK == 32 ? chunk ^ ((row >> 1) & 3) : chunk ^ (row & 7);
    return row * BK + mixed * CHUNK;
}

KF_DEVICE const u16* input_row(const ConvParams& p, int m) {
    if (m >= p.rows * p.steps) return nullptr;
    int row = m / p.steps, step = m - row * p.steps;
    return p.x + row * p.row_values + static_cast<long long>(step) * p.channels;
}

constexpr int A_LOADS = BM * ROW_CHUNKS / THREADS, B_LOADS = BN * ROW_CHUNKS / THREADS;
static_assert(BM * ROW_CHUNKS % THREADS == 0 && BN * ROW_CHUNKS % THREADS == 0, "whole loads per thread");

// A thread always loads the same chunk column; its rows are THREADS / ROW_CHUNKS apart.
struct Loader {
    const u16* a_rows[A_LOADS];
    int tap, channel, k;

    KF_DEVICE void start(const ConvParams& p, int tile_m, int first_k) {
        int chunk = threadIdx.x % ROW_CHUNKS, row = threadIdx.x / ROW_CHUNKS;
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) a_rows[i] = input_row(p, tile_m * BM + row + i * (THREADS / ROW_CHUNKS));
        k = first_k + chunk * CHUNK;
        tap = k / p.channels;
        channel = k - tap * p.channels;
    }

    KF_DEVICE void load(const ConvParams& p, int tile_n, u16* stage) {
        int chunk = threadIdx.x % ROW_CHUNKS, row = threadIdx.x / ROW_CHUNKS, total = p.taps * p.channels;
        long long offset = static_cast<long long>(tap) * p.dilation * p.channels + channel;
        bool inside = k < total;
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) {
            bool valid = inside && a_rows[i] != nullptr;
            ptx::cp_async16(stage + swizzled(row + i * (THREADS / ROW_CHUNKS), chunk),
                            valid ? a_rows[i] + offset : p.x, valid);
        }
        u16* b = stage + BM * BK;
#pragma unroll
        for (int i = 0; i < B_LOADS; i++) {
            int local = row + i * (THREADS / ROW_CHUNKS), n = tile_n * BN + local;
            bool valid = inside && n < p.outputs;
            ptx::cp_async16(b + swizzled(local, chunk),
                            valid ? p.weight + static_cast<long long>(n) * total + k : p.weight, valid);
        }
        k += BK;
        channel += BK;
        while (channel >= p.channels) {
            channel -= p.channels;
            tap++;
        }
    }
};

using Sums = float[TILES_M][TILES_N][4];

KF_DEVICE void multiply_stage(const u16* stage, int warp_m, int warp_n, Sums& sums) {
    int lane = warp_lane();
    const u16* b_stage = stage + BM * BK;
#pragma unroll
    for (int k = 0; k < BK / 16; k++) {
        u32 a[TILES_M][4];
#pragma unroll
        for (int i = 0; i < TILES_M; i++) {
            int row = warp_m * (BM / WARPS_M) + 16 * i + (lane / 8 % 2) * 8 + lane % 8;
            ptx::ldmatrix_x4(a[i], stage + swizzled(row, 2 * k + lane / 16));
        }
#pragma unroll
        for (int j = 0; j < TILES_N; j += 2) {
            u32 b[4];
            int row = warp_n * (BN / WARPS_N) + 8 * j + (lane / 16) * 8 + lane % 8;
            ptx::ldmatrix_x4(b, b_stage + swizzled(row, 2 * k + lane / 8 % 2));
#pragma unroll
            for (int i = 0; i < TILES_M; i++) {
                ptx::mma_f16(sums[i][j], a[i], b[0], b[1]);
                ptx::mma_f16(sums[i][j + 1], a[i], b[2], b[3]);
            }
        }
    }
}

// sin^2 has period pi: two fused steps bring the angle to +-pi/2, where the hardware sine is good to 2^-21.
KF_DEVICE float snake(float x, float alpha) {
    float angle = alpha * x, turns = rintf(angle * 0.318309886f);
    float sine = __sinf(fmaf(turns, 8.74227766e-8f, fmaf(turns, -3.14159274f, angle)));
    return x + sine * sine / (alpha + 1e-9f);
}

// Two neighbouring outputs of one step.
KF_DEVICE void store_pair(const ConvParams& p, int m, int n, float v0, float v1) {
    if (p.bias) {
        v0 += p.bias[n];
        v1 += p.bias[n + 1];
    }
    int row = m / p.steps, step = m - row * p.steps;
    if (p.activation == SWIGLU) {  // gate and up stand side by side
        u16* out = p.out + row * p.out_row_values + p.out_offset + static_cast<long long>(step) * (p.outputs / 2);
        out[n / 2] = static_cast<u16>(pack_f16_clamped(silu(v0) * v1, 0.0f));
        return;
    }
    if (p.activation == GELU) {
        v0 = 0.5f * v0 * (1.0f + erff(v0 * 0.70710678f));
        v1 = 0.5f * v1 * (1.0f + erff(v1 * 0.70710678f));
    }
    long long place = static_cast<long long>(step) * p.outputs + n;
    if (p.residual) {
        u32 old = *reinterpret_cast<const u32*>(p.residual + row * p.residual_row_values + p.residual_offset + place);
        float s0 = p.residual_scale ? p.residual_scale[n] : 1.0f, s1 = p.residual_scale ? p.residual_scale[n + 1] : 1.0f;
        v0 = f16_low(old) + s0 * v0;
        v1 = f16_high(old) + s1 * v1;
    }
    if (p.out) *reinterpret_cast<u32*>(p.out + row * p.out_row_values + p.out_offset + place) = pack_f16_clamped(v0, v1);
    if (p.out_snake)
        *reinterpret_cast<u32*>(p.out_snake + row * p.snake_row_values + p.snake_offset + place) =
            pack_f16_clamped(snake(v0, p.alpha[n]), snake(v1, p.alpha[n + 1]));
}

// Calls visit(m, n, sums + pair) for every pair of neighbouring outputs of this thread that exists.
template <class Visit>
KF_DEVICE void each_pair(const ConvParams& p, int tile_m, int tile_n, int warp_m, int warp_n, Sums& sums, Visit visit) {
    int g = warp_lane() / 4, j = warp_lane() % 4;
#pragma unroll
    for (int i = 0; i < TILES_M; i++)
#pragma unroll
        for (int t = 0; t < TILES_N; t++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int m = tile_m * BM + warp_m * (BM / WARPS_M) + 16 * i + 8 * half + g;
                int n = tile_n * BN + warp_n * (BN / WARPS_N) + 8 * t + 2 * j;
                if (m < p.rows * p.steps && n < p.outputs) visit(m, n, &sums[i][t][2 * half]);
            }
}

// True in the block that arrives last at this tile; it then holds the sum of all parts.
KF_DEVICE bool join_splits(const ConvParams& p, int tile_m, int tile_n, int warp_m, int warp_n, Sums& sums, u32* flag) {
    long long part = static_cast<long long>(p.rows) * p.steps * p.outputs;
    float* mine = p.parts + blockIdx.z * part;
    each_pair(p, tile_m, tile_n, warp_m, warp_n, sums, [&](int m, int n, float* pair) {
        *reinterpret_cast<float2*>(mine + static_cast<long long>(m) * p.outputs + n) = make_float2(pair[0], pair[1]);
    });
    __threadfence();
    __syncthreads();
    u32* arrivals = p.arrivals + blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x == 0) *flag = atomicAdd(arrivals, 1u);
    __syncthreads();
    if (*flag != static_cast<u32>(p.splits - 1)) return false;
    __threadfence();
    if (threadIdx.x == 0) *arrivals = 0;
    each_pair(p, tile_m, tile_n, warp_m, warp_n, sums, [&](int m, int n, float* pair) {
        pair[0] = pair[1] = 0.0f;
        for (int s = 0; s < p.splits; s++) {
            const float* other = p.parts + s * part + static_cast<long long>(m) * p.outputs + n;
            pair[0] += other[0];
            pair[1] += other[1];
        }
    });
    return true;
}

KF_KERNEL(conv, ConvParams, THREADS) {
    KF_SHARED(shared);
    u16* stages = reinterpret_cast<u16*>(shared);
    int tile_n = blockIdx.x, tile_m = blockIdx.y;
    int warp_m = warp_index() / WARPS_N, warp_n = warp_index() % WARPS_N;
    int k_tiles = (p.taps * p.channels + BK - 1) / BK;
    int first = k_tiles * blockIdx.z / p.splits, count = k_tiles * (blockIdx.z + 1) / p.splits - first;

    Loader loader;
    loader.start(p, tile_m, first * BK);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < count) loader.load(p, tile_n, stages + s * STAGE_VALUES);
        ptx::cp_async_commit();
    }
    Sums sums = {};
    for (int i = 0; i < count; i++) {
        ptx::cp_async_wait<STAGES - 2>();
        __syncthreads();  // stage i has landed, and everybody is done with the stage that is loaded next
        int next = i + STAGES - 1;
        if (next < count) loader.load(p, tile_n, stages + next % STAGES * STAGE_VALUES);
        ptx::cp_async_commit();
        multiply_stage(stages + i % STAGES * STAGE_VALUES, warp_m, warp_n, sums);
    }
    if (p.splits > 1) {
        __syncthreads();
        if (!join_splits(p, tile_m, tile_n, warp_m, warp_n, sums, reinterpret_cast<u32*>(shared))) return;
    }
    each_pair(p, tile_m, tile_n, warp_m, warp_n, sums,
              [&](int m, int n, float* pair) { store_pair(p, m, n, pair[0], pair[1]); });
}
