// Input vectors of the slow transformer: engine.model.dual_ar.DualAR.embed.
//
// Grid (rows, width in parts): the table rows are cold, so each thread asks for its share of all of them at once.
#include <common/numeric.cuh>

struct EmbedParams {
    const int* row_slot;             // [B]
    const int* columns;              // [slots or B, 1+K]
    const int* positions;            // [slots or B]
    const u16* embeddings;           // bf16 [V, C]
    const u16* codebook_embeddings;  // bf16 [K * codebook_size, C]
    float* x;                        // [B, C]
    int* row_position;               // [B]
    int by_slot;                     // columns and positions are indexed by slot (decode), not by row (prefill)
    int codebooks;
    int codebook_size;
    int semantic_begin;
    int dim;  // a multiple of 2
    float spoken_scale;
};

constexpr int EMBED_THREADS = 128;
constexpr int AT_ONCE = 4;  // codebook rows asked for together

KF_KERNEL(embed, EmbedParams, EMBED_THREADS) {
    int row = blockIdx.x, i = 2 * (blockIdx.y * EMBED_THREADS + threadIdx.x);
    int source = p.by_slot ? p.row_slot[row] : row;
    const int* column = p.columns + source * (1 + p.codebooks);
    int token = column[0];
    if (blockIdx.y == 0 && threadIdx.x == 0) p.row_position[row] = p.positions[source];
    if (i >= p.dim) return;
    u32 text = *reinterpret_cast<const u32*>(p.embeddings + static_cast<long long>(token) * p.dim + i);
    float low = bf16_low(text), high = bf16_high(text);
    if (token >= p.semantic_begin && token < p.semantic_begin + p.codebook_size) {
        for (int first = 0; first < p.codebooks; first += AT_ONCE) {
            u32 pairs[AT_ONCE];
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++) {
                int k = min(first + n, p.codebooks - 1);
                long long entry = static_cast<long long>(k) * p.codebook_size + column[1 + k];
                pairs[n] = *reinterpret_cast<const u32*>(p.codebook_embeddings + entry * p.dim + i);
            }
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++) {
                if (first + n >= p.codebooks) break;
                low += bf16_low(pairs[n]);
                high += bf16_high(pairs[n]);
            }
        }
        low *= p.spoken_scale;
        high *= p.spoken_scale;
    }
    *reinterpret_cast<float2*>(p.x + static_cast<long long>(row) * p.dim + i) = make_float2(low, high);
}
