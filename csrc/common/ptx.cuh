// The PTX instructions that the kernels use, one thin function each, and the kernel declaration macro.
//
// Everything that is not plain C++ lives here, so that the CPU emulation in tests/unit/csrc/emulator can stand in for
// this one file and run the kernels themselves without a GPU. Kernels include it as <common/ptx.cuh>; no CUDA header is
// needed, so NVRTC compiles them without a toolkit installed.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// One parameter struct per kernel, passed by value. All shared memory is dynamic.
// `resident`: blocks that must fit on a multiprocessor at once; it bounds the registers.
// A kernel declared EARLY calls ptx::follow_previous() itself, after reading what no other kernel writes.
#define KF_KERNEL_BEGINNING(name, Params, threads, resident, begin)                                        \
    KF_DEVICE void name##_body(const Params& p);                                                           \
    extern "C" __global__ void __launch_bounds__(threads, resident) name(const __grid_constant__ Params p) { \
        begin;                                                                                             \
        name##_body(p);                                                                                    \
    }                                                                                                      \
    KF_DEVICE void name##_body(const Params& p)
#define KF_KERNEL_RESIDENT(name, Params, threads, resident) \
    KF_KERNEL_BEGINNING(name, Params, threads, resident, ptx::follow_previous())
#define KF_KERNEL(name, Params, threads) KF_KERNEL_RESIDENT(name, Params, threads, 1)
#define KF_KERNEL_EARLY(name, Params, threads) KF_KERNEL_BEGINNING(name, Params, threads, 1, )
#define KF_SHARED(pointer) extern __shared__ __align__(1024) u8 pointer[]
#define KF_DEVICE __device__ __forceinline__

namespace ptx {

// Programmatic dependent launch. The next kernel's blocks may take their places while this one's last are at work; this
// one, which took its own so, waits until all that was queued before it has ended and can be read. Every kernel must
// wait, or what follows it could overtake what came before it.
KF_DEVICE void follow_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- conversions: the first argument lands in the low half ----------------------------------------

KF_DEVICE u32 pack_bf16(float lo, float hi) {
    u32 d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

KF_DEVICE u32 pack_f16(float lo, float hi) {
    u32 d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

KF_DEVICE float f16_to_float(u16 bits) {
    float d;
    asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(bits));
    return d;
}

// Two floats to E4M3, round to nearest even, saturating at +-448.
KF_DEVICE u16 pack_e4m3(float lo, float hi) {
    u16 d;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));
    return d;
}

// Two E4M3 to fp16, exactly.
KF_DEVICE u32 unpack_e4m3(u16 pair) {
    u32 d;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(pair));
    return d;
}

// ---- tensor cores: D = A[16x16] B[16x8] + C, fp32 accumulation ----------------------------------------
// Lane l, g = l / 4, j = l % 4. A: a0 (row g, k 2j..), a1 (g+8, 2j..), a2 (g, 2j+8..), a3 (g+8, 2j+8..);
// B: b0 (k 2j.., col g), b1 (k 2j+8.., col g); C: c0, c1 (row g, cols 2j, 2j+1), c2, c3 (row g+8).

KF_DEVICE void mma_bf16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Only rows 0..7 of A and C exist: the others are zero and are not kept.
KF_DEVICE void mma_bf16_upper(float& c0, float& c1, u32 a0, u32 a2, u32 b0, u32 b1) {
    [[maybe_unused]] float unused0, unused1;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%5}, {%7,%8}, {%9,%10,%11,%11};"
        : "=f"(c0), "=f"(c1), "=f"(unused0), "=f"(unused1)
        : "r"(a0), "r"(0), "r"(a2), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(0.0f));
}

KF_DEVICE void mma_f16_upper(float& c0, float& c1, u32 a0, u32 a2, u32 b0, u32 b1) {
    [[maybe_unused]] float unused0, unused1;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%5}, {%7,%8}, {%9,%10,%11,%11};"
        : "=f"(c0), "=f"(c1), "=f"(unused0), "=f"(unused1)
        : "r"(a0), "r"(0), "r"(a2), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(0.0f));
}

KF_DEVICE void mma_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// D = (A * scale_a)[16x32] (B * scale_b)[32x8] + C for E4M3, on cards of sm_120a alone. A: a0 (row g, k 4j..), a1 (g+8, 4j..),
// a2 (g, 4j+16..), a3 (g+8, 4j+16..); B: b0 (k 4j.., col g), b1 (4j+16.., col g). Scales are UE8M0 in the lowest byte: of row g
// from lane 4g, of row g+8 from lane 4g+1, of column g from lane 4g; other lanes' are not looked at.
KF_DEVICE void mma_mx(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, u32 scale_a, u32 scale_b) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, %10, {0, 0}, %11, {0, 0};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b));
}

// Four 8x8 matrices of 16-bit values; lane l gives the address of row l % 8 of matrix l / 8.
KF_DEVICE void ldmatrix_x4(u32 (&d)[4], const void* shared) {
    u32 address = static_cast<u32>(__cvta_generic_to_shared(shared));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(address)
                 : "memory");
}

// ---- warpgroup products (Hopper only): D[64xN] += A[64x16] B[Nx16]^T, fp16 from shared memory, fp32 sums -------------
// Both operands are rows of 64 values (128 bytes) whose 16-byte chunks are swizzled by the row's number, chunk ^ row % 8,
// from an address that is a multiple of 1024. Of D a warp holds its 16 of the 64 rows, in tiles of 8 columns laid out as C above.

// PTX ISA, "Shared Memory Matrix Layout": address / 16, the stride of 8 rows / 16, and the 128-byte swizzle.
KF_DEVICE u64 matrix_descriptor(const void* shared) {
    u64 address = static_cast<u64>(__cvta_generic_to_shared(shared)) & 0x3ffff;
    return address >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

// The next 16 values of every row.
KF_DEVICE u64 next_k(u64 descriptor) { return descriptor + 2; }

KF_DEVICE void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
KF_DEVICE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `pending` commits are unfinished. The sums must not be moved across it.
template <int pending, int tiles>
KF_DEVICE void warpgroup_wait(float (&c)[tiles][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory");
#pragma unroll
    for (int t = 0; t < tiles; t++) asm volatile("" : "+f"(c[t][0]), "+f"(c[t][1]), "+f"(c[t][2]), "+f"(c[t][3]) :: "memory");
}

// What this thread has written to shared memory becomes visible to warpgroup products after the next barrier.
KF_DEVICE void fence_for_warpgroup() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define KF_TILE(t) "+f"(c[t][0]), "+f"(c[t][1]), "+f"(c[t][2]), "+f"(c[t][3])
#define KF_TILES(t) KF_TILE(t), KF_TILE(t + 1), KF_TILE(t + 2), KF_TILE(t + 3)
#define KF_WARPGROUP_MULTIPLY(n, registers, a, b, ...)                                                     \
    KF_DEVICE void warpgroup_multiply(float (&c)[n / 8][4], u64 left, u64 right) {                          \
        asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, 1, 0;\n"                                       \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" registers "}, " a ", " b     \
                     ", adds, 1, 1, 0, 0;\n}"                                                               \
                     : __VA_ARGS__ : "l"(left), "l"(right));                                                \
    }
#define KF_0_31 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define KF_32_47 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define KF_48_63 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define KF_64_95 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
KF_WARPGROUP_MULTIPLY(64, KF_0_31, "%32", "%33", KF_TILES(0), KF_TILES(4))
KF_WARPGROUP_MULTIPLY(96, KF_0_31 KF_32_47, "%48", "%49", KF_TILES(0), KF_TILES(4), KF_TILES(8))
KF_WARPGROUP_MULTIPLY(128, KF_0_31 KF_32_47 KF_48_63, "%64", "%65", KF_TILES(0), KF_TILES(4), KF_TILES(8), KF_TILES(12))
KF_WARPGROUP_MULTIPLY(192, KF_0_31 KF_32_47 KF_48_63 KF_64_95, "%96", "%97", KF_TILES(0), KF_TILES(4), KF_TILES(8), KF_TILES(12),
                      KF_TILES(16), KF_TILES(20))
#undef KF_0_31
#undef KF_32_47
#undef KF_48_63
#undef KF_64_95
#undef KF_TILE
#undef KF_TILES
#undef KF_WARPGROUP_MULTIPLY

// ---- memory ----------------------------------------------------------------------------------------

// Streamed once: keep it out of L1.
KF_DEVICE uint4 load_streaming(const void* global) {
    uint4 d;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(d.x), "=r"(d.y), "=r"(d.z), "=r"(d.w)
                 : "l"(global));
    return d;
}

// 16 bytes to shared memory, or zeros where !valid (the source is then not read).
KF_DEVICE void cp_async16(void* shared, const void* global, bool valid) {
    u32 address = static_cast<u32>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(address), "l"(global), "r"(valid ? 16 : 0) : "memory");
}

KF_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int pending>
KF_DEVICE void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}

// Words of {payload, tag}: each is written and read whole, so a tag that fits vouches for its payload without a fence.
KF_DEVICE void store_word(u64* global, u32 payload, u32 tag) {
    u64 word = static_cast<u64>(tag) << 32 | payload;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(global), "l"(word) : "memory");
}

KF_DEVICE u64 load_word(const u64* global) {
    u64 d;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(d) : "l"(global) : "memory");
    return d;
}

// Two neighbouring words, 16-byte aligned.
KF_DEVICE uint4 load_word_pair(const u64* global) {
    u64 first, second;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(global) : "memory");
    return make_uint4(static_cast<u32>(first), static_cast<u32>(first >> 32), static_cast<u32>(second),
                      static_cast<u32>(second >> 32));
}

// Called by whoever waits for memory to change; a wait of seconds is a fault of ours and ends the kernel.
KF_DEVICE void spin(u32& rounds) {
    if (++rounds > 50000000u) __trap();
}

KF_DEVICE u32 load_acquire(const u32* global) {
    u32 d;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(d) : "l"(global) : "memory");
    return d;
}

KF_DEVICE void add_release(u32* global, u32 value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" :: "l"(global), "r"(value) : "memory");
}

// ---- mbarriers and bulk copies -----------------------------------------------------------------------

KF_DEVICE void mbarrier_init(u64* shared, u32 arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                 :: "r"(static_cast<u32>(__cvta_generic_to_shared(shared))), "r"(arrivals) : "memory");
}

KF_DEVICE void mbarrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

KF_DEVICE void mbarrier_arrive(u64* shared) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];"
                 :: "r"(static_cast<u32>(__cvta_generic_to_shared(shared))) : "memory");
}

// Arrive, and expect `bytes` of bulk copies before the phase completes.
KF_DEVICE void mbarrier_arrive_expect(u64* shared, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                 :: "r"(static_cast<u32>(__cvta_generic_to_shared(shared))), "r"(bytes) : "memory");
}

KF_DEVICE void mbarrier_wait(u64* shared, u32 parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n"
        "}\n"
        :: "r"(static_cast<u32>(__cvta_generic_to_shared(shared))), "r"(parity) : "memory");
}

// Bulk copy global -> shared, a multiple of 16 bytes, completing on the mbarrier; the data is read once.
KF_DEVICE void bulk_load(void* shared, const void* global, u32 bytes, u64* barrier) {
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
        :: "r"(static_cast<u32>(__cvta_generic_to_shared(shared))), "l"(global), "r"(bytes),
           "r"(static_cast<u32>(__cvta_generic_to_shared(barrier))), "l"(policy)
        : "memory");
}

// A warpgroup takes registers that others have given up, so that its code may use `count`; and the other way round.
template <int count>
KF_DEVICE void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count)); }

template <int count>
KF_DEVICE void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count)); }

// Barrier `id` (1..15) of the first `threads` threads that use it.
KF_DEVICE void named_barrier(u32 id, u32 threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

}  // namespace ptx
