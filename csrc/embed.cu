// Input vectors of the slow transformer: engine.model.dual_ar.DualAR.embed, one block per row.
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

constexpr int EMBED_THREADS = 256;

KF_KERNEL(embed, EmbedParams, EMBED_THREADS) {
    int row = blockIdx.x;
    int source = p.by_slot ? p.row_slot[row] : row;
    const int* column = p.columns + source * (1 + p.codebooks);
    int token = column[0];
    bool spoken = token >= p.semantic_begin && token < p.semantic_begin + p.codebook_size;
    if (threadIdx.x == 0) p.row_position[row] = p.positions[source];
    for (int i = 2 * threadIdx.x; i < p.dim; i += 2 * EMBED_THREADS) {
        u32 pair = *reinterpret_cast<const u32*>(p.embeddings + static_cast<long long>(token) * p.dim + i);
        float low = bf16_low(pair), high = bf16_high(pair);
        if (spoken) {
            for (int k = 0; k < p.codebooks; k++) {
                long long entry = static_cast<long long>(k) * p.codebook_size + column[1 + k];
                pair = *reinterpret_cast<const u32*>(p.codebook_embeddings + entry * p.dim + i);
                low += bf16_low(pair);
                high += bf16_high(pair);
            }
            low *= p.spoken_scale;
            high *= p.spoken_scale;
        }
        *reinterpret_cast<float2*>(p.x + static_cast<long long>(row) * p.dim + i) = make_float2(low, high);
    }
}
