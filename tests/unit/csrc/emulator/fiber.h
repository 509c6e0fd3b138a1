// A switch between stacks: a few instructions on x86-64, ucontext elsewhere (which makes system calls).
#pragma once

#include <cstdlib>
#include <vector>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace fiber {

constexpr std::size_t STACK_BYTES = 64 * 1024;

inline std::vector<void*> spare;  // stacks of fibers that are done

struct Stack {
    void* memory;
    Stack() {
        if (spare.empty()) {
            memory = std::aligned_alloc(64, STACK_BYTES);
        } else {
            memory = spare.back();
            spare.pop_back();
        }
    }
    ~Stack() { spare.push_back(memory); }
    Stack(const Stack&) = delete;
};

#ifdef __x86_64__

struct Context {
    void* stack_pointer;
};

// Saves what the ABI says a callee keeps, then continues where `to` stopped.
__attribute__((naked, noinline, noipa)) inline void swap_pointers(void**, void*) {
    asm volatile(
        "pushq %rbx; pushq %rbp; pushq %r12; pushq %r13; pushq %r14; pushq %r15;"
        "movq %rsp, (%rdi); movq %rsi, %rsp;"
        "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbp; popq %rbx; ret");
}

inline void swap(Context& from, Context& to) { swap_pointers(&from.stack_pointer, to.stack_pointer); }

inline void prepare(Context& context, Stack& stack, void (*entry)()) {
    void** top = reinterpret_cast<void**>(static_cast<char*>(stack.memory) + STACK_BYTES) - 1;
    *top = nullptr;  // entry's return address: it never returns
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; i++) *--top = nullptr;
    context.stack_pointer = top;
}

#else

struct Context {
    ucontext_t state;
};

inline void swap(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

inline void prepare(Context& context, Stack& stack, void (*entry)()) {
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = stack.memory;
    context.state.uc_stack.ss_size = STACK_BYTES;
    context.state.uc_link = nullptr;
    makecontext(&context.state, entry, 0);
}

#endif

}  // namespace fiber
