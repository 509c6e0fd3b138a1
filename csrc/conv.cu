// Causal convolution over time as a matrix product on the tensor cores: fp16 in, fp32 sums, fused epilogue.
//
// Everything heavy in the codec is this one kernel: dilated convolutions (taps rows of the input, dilation apart),
// transposed ones (kernel 2s, stride s: two taps, s * C outputs per input step, which in time-major layout already
// are the s output steps), and plain projections (one tap). No im2col: the A operand is read from the input at
// shifted rows. Input rows begin with the stream's past, so a chunk needs no special case.
//
// Tiles BM x BN x BK over WARPS_M x WARPS_N warps, STAGES deep with cp.async; the products are mma instructions, or on
// Hopper (KF_WARPGROUPS) warpgroup products that read both operands from the same stages. `splits` blocks share a
// tile's K range where there are too few tiles to fill the device; the last to arrive adds the parts in order, so the
// sum does not depend on timing.
#include <common/numeric.cuh>

constexpr int BM = KF_BM, BN = KF_BN, BK = KF_BK, STAGES = KF_STAGES;
constexpr int WARPS_M = KF_WARPS_M, WARPS_N = KF_WARPS_N;
constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int TILES_M = BM / WARPS_M / 16, TILES_N = BN / WARPS_N / 8;
constexpr int CHUNK = 8;  // fp16 values in 16 bytes
constexpr int ROW_CHUNKS = BK / CHUNK;
constexpr int STAGE_VALUES = (BM + BN) * BK;
// How many stages are on their way while one is read; warpgroup products still read the one before.
constexpr int AHEAD = STAGES - (KF_WARPGROUPS ? 2 : 1);
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

#if KF_WARPGROUPS
static_assert(BK == 64 && WARPS_N == 1 && BM == 16 * WARPS_M && WARPS_M % 4 == 0, "a warpgroup has 64 rows of 128 bytes");
constexpr int RESIDENT = 2;

// Leaves this stage's products running; the stage before is free for the thread's part in loading it.
KF_DEVICE void multiply_stage(const u16* stage, int warp_m, int, Sums& sums) {
    u64 a = ptx::matrix_descriptor(stage + warp_m / 4 * 64 * BK), b = ptx::matrix_descriptor(stage + BM * BK);
    ptx::warpgroup_fence();
#pragma unroll
    for (int k = 0; k < BK / 16; k++, a = ptx::next_k(a), b = ptx::next_k(b)) ptx::warpgroup_multiply(sums[0], a, b);
    ptx::warpgroup_commit();
    ptx::warpgroup_wait<1>(sums[0]);
}

KF_DEVICE void publish_stage() { ptx::fence_for_warpgroup(); }
KF_DEVICE void finish_products(Sums& sums) { ptx::warpgroup_wait<0>(sums[0]); }
#else
constexpr int RESIDENT = 1;

KF_DEVICE void publish_stage() {}
KF_DEVICE void finish_products(Sums&) {}

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
#endif

// sin^2 has period pi: two fused steps bring the angle to +-pi/2, where the hardware sine is good to 2^-21.
KF_DEVICE float snake(float x, float alpha) {
    float angle = alpha * x, turns = rintf(angle * 0.318309886f);
    float sine = __sinf(fmaf(turns, 8.74227766e-8f, fmaf(turns, -3.14159274f, angle)));
    return x + __fdividef(sine * sine, alpha + 1e-9f);
}

// ---- after the sums: through shared memory, so that the epilogue is one rolled loop with wide, coalesced accesses ----

constexpr int QUAD = 4;
constexpr int QUADS = BM * BN / QUAD;
static_assert(BM * BN * 4 <= STAGES * STAGE_VALUES * 2, "the sums must fit where the stages were");

// Rows two apart would meet in a bank; neighbours of a quad stay together.
KF_DEVICE int sum_place(int row, int column) { return row * BN + (column ^ ((row & 3) << 3)); }

KF_DEVICE void stage_sums(const Sums& sums, int warp_m, int warp_n, float* staged) {
    int g = warp_lane() / 4, j = warp_lane() % 4;
#pragma unroll
    for (int i = 0; i < TILES_M; i++)
#pragma unroll
        for (int t = 0; t < TILES_N; t++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = warp_m * (BM / WARPS_M) + 16 * i + 8 * half + g;
                int column = warp_n * (BN / WARPS_N) + 8 * t + 2 * j;
                *reinterpret_cast<float2*>(staged + sum_place(row, column)) =
                    make_float2(sums[i][t][2 * half], sums[i][t][2 * half + 1]);
            }
}

// Calls visit(m, n, staged quad) for every quad of this thread that exists.
template <class Visit>
KF_DEVICE void each_quad(const ConvParams& p, const float* staged, Visit visit) {
    for (int i = threadIdx.x; i < QUADS; i += THREADS) {
        int row = i / (BN / QUAD), column = i % (BN / QUAD) * QUAD;
        int m = blockIdx.y * BM + row, n = blockIdx.x * BN + column;
        if (m < p.rows * p.steps && n < p.outputs)
            visit(m, n, *reinterpret_cast<const float4*>(staged + sum_place(row, column)));
    }
}

KF_DEVICE float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

KF_DEVICE float4 quad_of(const float* values, int n, float otherwise) {
    if (!values) return make_float4(otherwise, otherwise, otherwise, otherwise);
    return *reinterpret_cast<const float4*>(values + n);
}

KF_DEVICE uint2 pack_quad(float4 v) { return make_uint2(pack_f16_clamped(v.x, v.y), pack_f16_clamped(v.z, v.w)); }

// Four neighbouring outputs of one step.
KF_DEVICE void store_quad(const ConvParams& p, int m, int n, float4 v) {
    float4 bias = quad_of(p.bias, n, 0.0f);
    v = make_float4(v.x + bias.x, v.y + bias.y, v.z + bias.z, v.w + bias.w);
    int row = m / p.steps, step = m - row * p.steps;
    if (p.activation == SWIGLU) {  // gate and up stand side by side
        u16* out = p.out + row * p.out_row_values + p.out_offset + static_cast<long long>(step) * (p.outputs / 2);
        *reinterpret_cast<u32*>(out + n / 2) = pack_f16_clamped(silu(v.x) * v.y, silu(v.z) * v.w);
        return;
    }
    if (p.activation == GELU) v = make_float4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w));
    long long place = static_cast<long long>(step) * p.outputs + n;
    if (p.residual) {
        uint2 old = *reinterpret_cast<const uint2*>(p.residual + row * p.residual_row_values + p.residual_offset + place);
        float4 scale = quad_of(p.residual_scale, n, 1.0f);
        v = make_float4(f16_low(old.x) + scale.x * v.x, f16_high(old.x) + scale.y * v.y,
                        f16_low(old.y) + scale.z * v.z, f16_high(old.y) + scale.w * v.w);
    }
    if (p.out) *reinterpret_cast<uint2*>(p.out + row * p.out_row_values + p.out_offset + place) = pack_quad(v);
    if (p.out_snake) {
        float4 alpha = quad_of(p.alpha, n, 1.0f);
        v = make_float4(snake(v.x, alpha.x), snake(v.y, alpha.y), snake(v.z, alpha.z), snake(v.w, alpha.w));
        *reinterpret_cast<uint2*>(p.out_snake + row * p.snake_row_values + p.snake_offset + place) = pack_quad(v);
    }
}

// Hands this block's part over; true in the block that arrives last at the tile.
KF_DEVICE bool hand_over(const ConvParams& p, const float* staged, float* parts, u32* flag) {
    each_quad(p, staged, [&](int m, int n, float4 v) {
        *reinterpret_cast<float4*>(parts + static_cast<long long>(m) * p.outputs + n) = v;
    });
    __threadfence();
    __syncthreads();
    u32* arrivals = p.arrivals + blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x == 0) *flag = atomicAdd(arrivals, 1u);
    __syncthreads();
    bool is_last = *flag == static_cast<u32>(p.splits - 1);
    if (is_last && threadIdx.x == 0) *arrivals = 0;
    __threadfence();
    return is_last;
}

KF_DEVICE void join_and_store(const ConvParams& p, const float* staged, u32* flag) {
    long long part = static_cast<long long>(p.rows) * p.steps * p.outputs;
    if (!hand_over(p, staged, p.parts + blockIdx.z * part, flag)) return;
    each_quad(p, staged, [&](int m, int n, float4) {
        float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int s = 0; s < p.splits; s++) {
            float4 v = *reinterpret_cast<const float4*>(p.parts + s * part + static_cast<long long>(m) * p.outputs + n);
            total = make_float4(total.x + v.x, total.y + v.y, total.z + v.z, total.w + v.w);
        }
        store_quad(p, m, n, total);
    });
}

KF_KERNEL_RESIDENT(conv, ConvParams, THREADS, RESIDENT) {
    KF_SHARED(shared);
    u16* stages = reinterpret_cast<u16*>(shared);
    int tile_n = blockIdx.x, tile_m = blockIdx.y;
    int warp_m = warp_index() / WARPS_N, warp_n = warp_index() % WARPS_N;
    int k_tiles = (p.taps * p.channels + BK - 1) / BK;
    int first = k_tiles * blockIdx.z / p.splits, count = k_tiles * (blockIdx.z + 1) / p.splits - first;

    Loader loader;
    loader.start(p, tile_m, first * BK);
#pragma unroll
    for (int s = 0; s < AHEAD; s++) {
        if (s < count) loader.load(p, tile_n, stages + s * STAGE_VALUES);
        ptx::cp_async_commit();
    }
    Sums sums = {};
    for (int i = 0; i < count; i++) {
        ptx::cp_async_wait<AHEAD - 1>();
        publish_stage();
        __syncthreads();  // stage i has landed, and everybody is done with the stage that is loaded next
        int next = i + AHEAD;
        if (next < count) loader.load(p, tile_n, stages + next % STAGES * STAGE_VALUES);
        ptx::cp_async_commit();
        multiply_stage(stages + i % STAGES * STAGE_VALUES, warp_m, warp_n, sums);
    }
    finish_products(sums);
    __syncthreads();  // the stages are free
    float* staged = reinterpret_cast<float*>(shared);
    stage_sums(sums, warp_m, warp_n, staged);
    __syncthreads();
    if (p.splits > 1)
        join_and_store(p, staged, reinterpret_cast<u32*>(shared + STAGES * STAGE_VALUES * 2));
    else
        each_quad(p, staged, [&](int m, int n, float4 v) { store_quad(p, m, n, v); });
}
