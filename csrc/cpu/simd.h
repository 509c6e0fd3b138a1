// Vectors of the widest kind this CPU has, and the few elementary functions that the model needs on them.
//
// Every sum in this library runs in an order that depends on the layer's shape alone, never on how many rows are
// worked on at once. Multiply-add is always the explicit fused form, so that two instantiations of a kernel cannot
// round differently.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

namespace kf {

#if defined(__AVX512F__)
constexpr int VL = 16;  // lanes
#else
constexpr int VL = 8;
#endif

typedef float vf __attribute__((vector_size(VL * 4)));
typedef int32_t vi __attribute__((vector_size(VL * 4)));

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }

inline vf splat(float x) { return x + vf{}; }

inline vf fma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

inline float sum(vf v) {
    for (int width = VL / 2; width >= 1; width /= 2)
        for (int i = 0; i < width; i++) v[i] += v[i + width];
    return v[0];
}

// ---- weights in memory: fp16 where the CPU widens it in one instruction, else fp32; arithmetic is always fp32 ----

#if defined(__AVX512F__) || defined(__F16C__) || defined(__aarch64__)
using Weight = uint16_t;

inline Weight to_weight(float x) {
    _Float16 h = (_Float16)x;
    Weight bits;
    std::memcpy(&bits, &h, 2);
    return bits;
}

inline float from_weight(Weight bits) {
    _Float16 h;
    std::memcpy(&h, &bits, 2);
    return (float)h;
}

inline vf load_weights(const Weight* p) {
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
#elif defined(__F16C__)
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
#else
    typedef _Float16 vh __attribute__((vector_size(VL * 2)));
    vh h;
    std::memcpy(&h, p, sizeof h);
    return __builtin_convertvector(h, vf);
#endif
}
#else
using Weight = float;

inline Weight to_weight(float x) { return x; }
inline float from_weight(Weight x) { return x; }
inline vf load_weights(const Weight* p) { return load(p); }
#endif

// ---- elementary functions ----------------------------------------------------------------------------------

inline vf round_nearest(vf x) {
    // Adding and taking away 1.5 * 2^23 leaves the nearest integer for |x| < 2^22.
    const vf magic = splat(12582912.0f);
    return (x + magic) - magic;
}

// e^x, relative error below 3e-7 for |x| < 87; clamped outside. 2^n by exponent bits, e^r by its series on
// |r| <= ln 2 / 2, where the first dropped term is below 6e-9.
inline vf exp(vf x) {
    const vf low = splat(-87.0f), high = splat(88.0f);
    x = x < low ? low : x;
    x = x > high ? high : x;
    const vf n = round_nearest(x * splat(1.44269504f));
    vf r = fma(n, splat(-0.693359375f), x);
    r = fma(n, splat(2.12194440e-4f), r);
    vf p = splat(1.0f / 5040);
    p = fma(p, r, splat(1.0f / 720));
    p = fma(p, r, splat(1.0f / 120));
    p = fma(p, r, splat(1.0f / 24));
    p = fma(p, r, splat(1.0f / 6));
    p = fma(p, r, splat(0.5f));
    p = fma(p, r, splat(1.0f));
    p = fma(p, r, splat(1.0f));
    const vi bits = (__builtin_convertvector(n, vi) + 127) << 23;
    return p * (vf)bits;
}

// sin(x)^2, absolute error below 2e-7 for |x| < 1e4: reduced by multiples of pi (three-part), odd series to x^13.
inline vf sin_squared(vf x) {
    const vf n = round_nearest(x * splat(0.318309886f));
    vf r = fma(n, splat(-3.140625f), x);
    r = fma(n, splat(-9.67502593994140625e-4f), r);
    r = fma(n, splat(-1.50995788e-7f), r);
    const vf r2 = r * r;
    vf p = splat(1.0f / 6227020800.0f);
    p = fma(p, r2, splat(-1.0f / 39916800.0f));
    p = fma(p, r2, splat(1.0f / 362880.0f));
    p = fma(p, r2, splat(-1.0f / 5040.0f));
    p = fma(p, r2, splat(1.0f / 120.0f));
    p = fma(p, r2, splat(-1.0f / 6.0f));
    const vf s = fma(p * r2, r, r);
    return s * s;
}

inline int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// Apply f to n floats, n of any size: the tail goes through a padded copy.
template <class F>
inline void map(float* x, int n, F f) {
    int i = 0;
    for (; i + VL <= n; i += VL) store(x + i, f(load(x + i), i));
    if (i < n) {
        float tail[VL] = {};
        std::memcpy(tail, x + i, (n - i) * sizeof(float));
        const vf y = f(load(tail), i);
        std::memcpy(x + i, &y, (n - i) * sizeof(float));
    }
}

}  // namespace kf
