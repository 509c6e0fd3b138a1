// Runs a CUDA kernel of csrc/ on the CPU: every thread is a fiber, blocks run one after another (or all together for a
// cooperative launch), barriers and warp collectives are rendezvous. Slow, exact, and it finds what a GPU hides:
// shared memory starts as NaNs, asynchronous copies land only when they are waited for, and a deadlock is an abort.
#pragma once

#include "fiber.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __align__(n) alignas(n)
#define __launch_bounds__(...)

struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulator {

struct Dim3 { unsigned x, y, z; };

// Mirrors the launch structure on the Python side.
struct Launch {
    Dim3 grid;
    unsigned threads;
    unsigned shared_bytes;
    unsigned cooperative;
};

struct Rendezvous {
    unsigned arrived = 0;
    unsigned generation = 0;
};

struct Warp {
    Rendezvous meeting;
    alignas(16) unsigned char slots[2][32][64];
    unsigned turn[32] = {};
    unsigned lanes = 0;
};

struct PendingCopy {
    void* to;
    unsigned char bytes[16];
    const void* from;
    bool valid;
};

struct Block {
    Dim3 index;
    std::vector<unsigned char> storage;
    unsigned char* shared;
    Rendezvous all;
    Rendezvous named[16];
    std::vector<Warp> warps;
    unsigned alive;
};

struct Fiber {
    fiber::Context context;
    fiber::Stack stack;
    Block* block = nullptr;
    Dim3 thread;
    bool done = false;
    std::vector<std::vector<PendingCopy>> copies{1};
    std::vector<std::vector<std::function<void()>>> products{1};
};

struct Machine {
    fiber::Context scheduler;
    Fiber* current = nullptr;
    Launch launch;
    std::function<void()> body;
    unsigned long long progress = 0;
};

inline Machine machine;

[[noreturn]] inline void fail(const char* what) {
    std::fprintf(stderr, "emulator: %s (block %u, thread %u)\n", what, machine.current->block->index.x,
                 machine.current->thread.x);
    std::abort();
}

inline void yield() { fiber::swap(machine.current->context, machine.scheduler); }

inline void meet(Rendezvous& r, unsigned count) {
    unsigned mine = r.generation;
    machine.progress++;
    if (++r.arrived == count) {
        r.arrived = 0;
        r.generation++;
        return;
    }
    while (r.generation == mine) yield();
}

inline unsigned lane() { return machine.current->thread.x % 32; }
inline Warp& warp() { return machine.current->block->warps[machine.current->thread.x / 32]; }

// Every lane gives one value and sees all 32. Two buffers: a lane is at most one collective ahead of the others.
template <class T>
inline const T& exchange(const T& mine, unsigned of_lane, bool first, unsigned turn) {
    static_assert(sizeof(T) <= 64);
    Warp& w = warp();
    if (first) {
        std::memcpy(w.slots[turn % 2][lane()], &mine, sizeof(T));
        meet(w.meeting, w.lanes);
    }
    return *reinterpret_cast<const T*>(w.slots[turn % 2][of_lane]);
}

template <class T>
struct Collective {
    unsigned turn;
    explicit Collective(const T& mine) : turn(warp().turn[lane()]++) { exchange(mine, lane(), true, turn); }
    const T& operator[](unsigned of_lane) const { return exchange(T{}, of_lane, false, turn); }
};

inline void entry() {
    machine.body();
    machine.current->done = true;
    yield();
}

inline std::unique_ptr<Block> make_block(Dim3 index) {
    auto block = std::make_unique<Block>();
    block->index = index;
    block->storage.assign(machine.launch.shared_bytes + 1024, 0xff);
    auto address = reinterpret_cast<std::uintptr_t>(block->storage.data());
    block->shared = block->storage.data() + (1024 - address % 1024) % 1024;
    block->alive = machine.launch.threads;
    block->warps.resize((machine.launch.threads + 31) / 32);
    for (unsigned w = 0; w < block->warps.size(); w++)
        block->warps[w].lanes = std::min(32u, machine.launch.threads - 32 * w);
    return block;
}

inline void run_blocks(std::vector<std::unique_ptr<Block>>& blocks) {
    std::vector<std::unique_ptr<Fiber>> fibers;
    for (auto& block : blocks) {
        for (unsigned t = 0; t < machine.launch.threads; t++) {
            auto fiber = std::make_unique<Fiber>();
            fiber->block = block.get();
            fiber->thread = {t, 0, 0};
            fiber::prepare(fiber->context, fiber->stack, entry);
            fibers.push_back(std::move(fiber));
        }
    }
    unsigned remaining = fibers.size(), idle_rounds = 0;
    while (remaining) {
        unsigned long long before = machine.progress;
        // Last thread first: code that relies on thread 0 being early fails here.
        for (unsigned i = fibers.size(); i-- > 0;) {
            if (fibers[i]->done) continue;
            machine.current = fibers[i].get();
            fiber::swap(machine.scheduler, machine.current->context);
            if (fibers[i]->done) {
                remaining--;
                machine.progress++;
            }
        }
        idle_rounds = machine.progress == before ? idle_rounds + 1 : 0;
        if (idle_rounds > 1000) fail("deadlock");
    }
}

inline void run(const Launch& launch, std::function<void()> body) {
    machine.launch = launch;
    machine.body = std::move(body);
    std::vector<std::unique_ptr<Block>> blocks;
    for (unsigned z = 0; z < launch.grid.z; z++)
        for (unsigned y = 0; y < launch.grid.y; y++)
            for (unsigned x = 0; x < launch.grid.x; x++) {
                blocks.push_back(make_block({x, y, z}));
                if (!launch.cooperative) {
                    run_blocks(blocks);
                    blocks.clear();
                }
            }
    if (launch.cooperative) run_blocks(blocks);
}

}  // namespace emulator

#define threadIdx (emulator::machine.current->thread)
#define blockIdx (emulator::machine.current->block->index)
#define gridDim (emulator::machine.launch.grid)
#define blockDim (emulator::Dim3{emulator::machine.launch.threads, 1, 1})

inline void __syncthreads() { emulator::meet(emulator::machine.current->block->all, emulator::machine.launch.threads); }
inline void __syncwarp(unsigned = ~0u) { emulator::meet(emulator::warp().meeting, emulator::warp().lanes); }
inline void __threadfence() {}

template <class T>
inline T __shfl_xor_sync(unsigned, T value, int mask) {
    emulator::Collective<T> all(value);
    return all[emulator::lane() ^ mask];
}

template <class T>
inline T __shfl_sync(unsigned, T value, int source) {
    emulator::Collective<T> all(value);
    return all[source & 31];
}

template <class T>
inline T __shfl_up_sync(unsigned, T value, unsigned delta) {
    emulator::Collective<T> all(value);
    return all[emulator::lane() < delta ? emulator::lane() : emulator::lane() - delta];
}

inline unsigned __ballot_sync(unsigned, int predicate) {
    emulator::Collective<int> all(predicate);
    unsigned bits = 0;
    for (unsigned i = 0; i < emulator::warp().lanes; i++) bits |= (all[i] ? 1u : 0u) << i;
    return bits;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline unsigned atomicAdd(unsigned* p, unsigned v) { emulator::machine.progress++; unsigned old = *p; *p += v; return old; }
inline int atomicAdd(int* p, int v) { emulator::machine.progress++; int old = *p; *p += v; return old; }
inline int atomicAnd(int* p, int v) { int old = *p; *p &= v; return old; }
inline float __uint_as_float(unsigned v) { float f; std::memcpy(&f, &v, 4); return f; }
inline unsigned __float_as_uint(float v) { unsigned u; std::memcpy(&u, &v, 4); return u; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
inline float __sinf(float x) { return std::sin(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
template <class T> inline T min(T a, T b) { return a < b ? a : b; }
template <class T> inline T max(T a, T b) { return a > b ? a : b; }
