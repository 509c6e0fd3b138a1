// Stands in for csrc/common/ptx.cuh when a kernel is compiled for the CPU. Same names, same layouts, same rounding.
#pragma once

#include "../emulator.h"

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

#define KF_KERNEL(name, Params, threads)                                                     \
    static void name##_body(const Params& p);                                                \
    extern "C" unsigned name##_params_bytes() { return sizeof(Params); }                     \
    extern "C" unsigned name##_threads() { return threads; }                                 \
    extern "C" void name(const emulator::Launch* launch, const void* params) {               \
        emulator::run(*launch, [params] { name##_body(*static_cast<const Params*>(params)); }); \
    }                                                                                        \
    static void name##_body(const Params& p)
#define KF_KERNEL_RESIDENT(name, Params, threads, resident) KF_KERNEL(name, Params, threads)
#define KF_KERNEL_EARLY(name, Params, threads) KF_KERNEL(name, Params, threads)
#define KF_SHARED(pointer) u8* const pointer = emulator::machine.current->block->shared
#define KF_DEVICE inline

namespace ptx {

inline void follow_previous() {}

inline u16 round_bf16(float value) {
    u32 bits = __float_as_uint(value);
    if (value != value) return 0x7fff;
    return static_cast<u16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float bf16_value(u16 bits) { return __uint_as_float(static_cast<u32>(bits) << 16); }

inline u16 round_f16(float value) {
    _Float16 half = static_cast<_Float16>(value);
    u16 bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}

inline float f16_to_float(u16 bits) {
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    return static_cast<float>(half);
}

inline u32 pack_bf16(float lo, float hi) { return round_bf16(lo) | static_cast<u32>(round_bf16(hi)) << 16; }
inline u32 pack_f16(float lo, float hi) { return round_f16(lo) | static_cast<u32>(round_f16(hi)) << 16; }

inline u8 round_e4m3(float value) {
    u8 sign = std::signbit(value) ? 0x80 : 0;
    if (value != value) return sign | 0x7f;
    float size = std::fabs(value);
    if (size >= 448.0f) return sign | 0x7e;
    int exponent = size > 0 ? std::max(std::ilogb(size), -6) : -6;
    float steps = std::nearbyint(std::ldexp(size, 3 - exponent));  // ties to even
    return sign | static_cast<u8>(static_cast<int>(steps) + (exponent + 6) * 8);
}

inline u16 pack_e4m3(float lo, float hi) { return round_e4m3(lo) | static_cast<u16>(round_e4m3(hi)) << 8; }

inline float e4m3_value(u8 bits) {
    int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float size = exponent ? std::ldexp(8.0f + mantissa, exponent - 10) : std::ldexp(static_cast<float>(mantissa), -9);
    return bits & 0x80 ? -size : size;
}

inline u32 unpack_e4m3(u16 pair) { return pack_f16(e4m3_value(pair & 0xff), e4m3_value(pair >> 8)); }

struct Fragments {
    u32 a[4];
    u32 b[2];
};

template <class Value>
inline void mma(float (&c)[4], const Fragments& mine, Value value) {
    emulator::Collective<Fragments> all(mine);
    unsigned g = emulator::lane() / 4, j = emulator::lane() % 4;
    float sums[4] = {};
    for (int k = 0; k < 16; k++) {
        unsigned of_j = (k % 8) / 2, shift = 16 * (k % 2), high = k / 8;
        for (int half = 0; half < 2; half++) {
            float a = value(static_cast<u16>(all[4 * g + of_j].a[half + 2 * high] >> shift));
            for (int col = 0; col < 2; col++)
                sums[2 * half + col] += a * value(static_cast<u16>(all[4 * (2 * j + col) + of_j].b[high] >> shift));
        }
    }
    for (int i = 0; i < 4; i++) c[i] += sums[i];
}

inline void mma_bf16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    mma(c, Fragments{{a0, a1, a2, a3}, {b0, b1}}, bf16_value);
}

inline void mma_bf16_upper(float& c0, float& c1, u32 a0, u32 a2, u32 b0, u32 b1) {
    float c[4] = {c0, c1, 0.0f, 0.0f};
    mma(c, Fragments{{a0, 0, a2, 0}, {b0, b1}}, bf16_value);
    c0 = c[0];
    c1 = c[1];
}

inline void mma_f16_upper(float& c0, float& c1, u32 a0, u32 a2, u32 b0, u32 b1) {
    float c[4] = {c0, c1, 0.0f, 0.0f};
    mma(c, Fragments{{a0, 0, a2, 0}, {b0, b1}}, f16_to_float);
    c0 = c[0];
    c1 = c[1];
}

inline void mma_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    mma(c, Fragments{{a[0], a[1], a[2], a[3]}, {b0, b1}}, f16_to_float);
}

struct ScaledFragments {
    u32 a[4];
    u32 b[2];
    u32 scale_a, scale_b;
};

inline float e8m0_value(u32 bits) { return bits == 255 ? NAN : std::ldexp(1.0f, static_cast<int>(bits) - 127); }

inline void mma_mx(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, u32 scale_a, u32 scale_b) {
    emulator::Collective<ScaledFragments> all(ScaledFragments{{a[0], a[1], a[2], a[3]}, {b0, b1}, scale_a, scale_b});
    unsigned g = emulator::lane() / 4, j = emulator::lane() % 4;
    for (int i = 0; i < 4; i++) {
        int half = i / 2;
        unsigned column = 2 * j + i % 2;
        float sum = 0.0f;
        for (int k = 0; k < 32; k++) {
            unsigned of_j = k % 16 / 4, shift = 8 * (k % 4), high = k / 16;
            sum += e4m3_value(static_cast<u8>(all[4 * g + of_j].a[half + 2 * high] >> shift))
                   * e4m3_value(static_cast<u8>(all[4 * column + of_j].b[high] >> shift));
        }
        c[i] += sum * e8m0_value(all[4 * g + half].scale_a & 255) * e8m0_value(all[4 * column].scale_b & 255);
    }
}

// ---- warpgroup products: a descriptor is the address itself; the sums are made as late as they may be, at the wait ------

inline u64 matrix_descriptor(const void* shared) {
    if (static_cast<const u8*>(shared) < emulator::machine.current->block->shared) emulator::fail("not shared memory");
    if (reinterpret_cast<std::uintptr_t>(shared) % 1024) emulator::fail("a swizzled operand is not aligned to 1024 bytes");
    return reinterpret_cast<u64>(shared);
}

inline u64 next_k(u64 descriptor) { return descriptor + 32; }
inline void warpgroup_fence() {}
inline void warpgroup_commit() { emulator::machine.current->products.emplace_back(); }
inline void fence_for_warpgroup() {}

template <int pending, int tiles>
inline void warpgroup_wait(float (&)[tiles][4]) {
    auto& groups = emulator::machine.current->products;
    while (groups.size() > pending + 1) {
        for (auto& product : groups.front()) product();
        groups.erase(groups.begin());
    }
}

// The hardware swizzles addresses: bits 4..6 by bits 7..9.
inline float swizzled_value(u64 descriptor, unsigned row, unsigned k) {
    u64 address = descriptor + 128 * row + 2 * k;
    address ^= (address >> 7 & 7) << 4;
    u16 bits;
    std::memcpy(&bits, reinterpret_cast<const void*>(address), 2);
    return f16_to_float(bits);
}

template <int tiles>
inline void warpgroup_multiply(float (&c)[tiles][4], u64 left, u64 right) {
    unsigned warp = threadIdx.x / 32 % 4, g = emulator::lane() / 4, j = emulator::lane() % 4;
    emulator::machine.current->products.back().push_back([&c, left, right, warp, g, j] {
        float a[2][16];
        for (unsigned half = 0; half < 2; half++)
            for (unsigned k = 0; k < 16; k++) a[half][k] = swizzled_value(left, 16 * warp + 8 * half + g, k);
        for (unsigned t = 0; t < tiles; t++)
            for (unsigned column = 0; column < 2; column++) {
                float sums[2] = {};
                for (unsigned k = 0; k < 16; k++) {
                    float b = swizzled_value(right, 8 * t + 2 * j + column, k);
                    for (unsigned half = 0; half < 2; half++) sums[half] += a[half][k] * b;
                }
                for (unsigned half = 0; half < 2; half++) c[t][2 * half + column] += sums[half];
            }
    });
}

inline void ldmatrix_x4(u32 (&d)[4], const void* shared) {
    emulator::Collective<const void*> rows(shared);
    unsigned g = emulator::lane() / 4, j = emulator::lane() % 4;
    for (int m = 0; m < 4; m++) {
        const u8* row = static_cast<const u8*>(rows[8 * m + g]);
        if (reinterpret_cast<std::uintptr_t>(row) % 16) emulator::fail("ldmatrix row is not aligned to 16 bytes");
        std::memcpy(&d[m], row + 4 * j, 4);
    }
}

inline uint4 load_streaming(const void* global) {
    uint4 d;
    if (reinterpret_cast<std::uintptr_t>(global) % 16) emulator::fail("16-byte load is not aligned");
    std::memcpy(&d, global, 16);
    return d;
}

inline void cp_async16(void* shared, const void* global, bool valid) {
    if (reinterpret_cast<std::uintptr_t>(shared) % 16) emulator::fail("cp.async target is not aligned");
    if (valid && reinterpret_cast<std::uintptr_t>(global) % 16) emulator::fail("cp.async source is not aligned");
    emulator::machine.current->copies.back().push_back({shared, {}, global, valid});
}

inline void cp_async_commit() { emulator::machine.current->copies.emplace_back(); }

template <int pending>
inline void cp_async_wait() {
    auto& groups = emulator::machine.current->copies;
    while (groups.size() > pending + 1) {
        for (auto& copy : groups.front()) {
            if (copy.valid) std::memcpy(copy.to, copy.from, 16);
            else std::memset(copy.to, 0, 16);
        }
        groups.erase(groups.begin());
    }
}

inline void store_word(u64* global, u32 payload, u32 tag) {
    emulator::machine.progress++;
    *global = static_cast<u64>(tag) << 32 | payload;
}

inline u64 load_word(const u64* global) { return *const_cast<const volatile u64*>(global); }

inline uint4 load_word_pair(const u64* global) {
    if (reinterpret_cast<std::uintptr_t>(global) % 16) emulator::fail("word pair is not aligned");
    u64 first = global[0], second = global[1];
    return make_uint4(static_cast<u32>(first), static_cast<u32>(first >> 32), static_cast<u32>(second),
                      static_cast<u32>(second >> 32));
}

inline void spin(u32&) { emulator::yield(); }

inline u32 load_acquire(const u32* global) {
    emulator::yield();
    return *const_cast<const volatile u32*>(global);
}

inline void add_release(u32* global, u32 value) {
    emulator::machine.progress++;
    *global += value;
}

// An mbarrier word: arrivals expected (16 bits), arrivals missing (16), bytes missing (31), phase (1).
struct Barrier {
    u64 expected : 12, missing : 12, phase : 1, bytes : 39;
};

inline void mbarrier_settle(Barrier& b) {
    emulator::machine.progress++;
    if (b.missing == 0 && b.bytes == 0) {
        b.missing = b.expected;
        b.phase ^= 1;
    }
}

inline void mbarrier_init(u64* shared, u32 arrivals) {
    *reinterpret_cast<Barrier*>(shared) = Barrier{arrivals, arrivals, 0, 0};
}

inline void mbarrier_init_fence() {}

inline void mbarrier_arrive(u64* shared) {
    auto& b = *reinterpret_cast<Barrier*>(shared);
    if (b.missing == 0) emulator::fail("more arrivals than the mbarrier expects");
    b.missing--;
    mbarrier_settle(b);
}

inline void mbarrier_arrive_expect(u64* shared, u32 bytes) {
    auto& b = *reinterpret_cast<Barrier*>(shared);
    b.bytes += bytes;
    mbarrier_arrive(shared);
}

inline void mbarrier_wait(u64* shared, u32 parity) {
    auto& b = *reinterpret_cast<Barrier*>(shared);
    while (b.phase == parity) emulator::yield();
}

inline void bulk_load(void* shared, const void* global, u32 bytes, u64* barrier) {
    if (reinterpret_cast<std::uintptr_t>(shared) % 16 || reinterpret_cast<std::uintptr_t>(global) % 16 || bytes % 16)
        emulator::fail("bulk copy is not aligned to 16 bytes");
    std::memcpy(shared, global, bytes);
    auto& b = *reinterpret_cast<Barrier*>(barrier);
    b.bytes -= bytes;
    mbarrier_settle(b);
}

template <int>
inline void take_registers() {}

template <int>
inline void give_registers() {}

inline void named_barrier(u32 id, u32 threads) {
    emulator::meet(emulator::machine.current->block->named[id], threads);
}

}  // namespace ptx
