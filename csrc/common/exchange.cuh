// Values handed from any block to any other inside one cooperative launch, without a barrier over the grid.
//
// A word is {payload, tag} in 8 bytes, written and read whole. Tags only grow, and every block counts the same ones, so a
// reader that finds the tag it expects has the value it expects: the data is its own flag. No fence is needed, and a
// fence is what must be avoided here, because it would also wait for the block's weight copies in flight.
//
// A buffer may be written again once every reader of its last contents must have finished. That holds by dependency: a
// block writes phase n+1 only after it has read words that other blocks wrote after *their* reading (see frame.cu).
#pragma once

#include <common/numeric.cuh>

KF_DEVICE u32 wait_word(const u64* word, u32 tag) {
    u32 rounds = 0;
    u64 value = ptx::load_word(word);
    while (static_cast<u32>(value >> 32) != tag) {
        ptx::spin(rounds);
        value = ptx::load_word(word);
    }
    return static_cast<u32>(value);
}

// STEPS pairs of words, `stride` words apart. All are asked for at once, again until every one is there.
template <int STEPS>
KF_DEVICE void wait_pairs(const u64* words, int stride, u32 tag, u32 (&payloads)[STEPS][2]) {
    u32 rounds = 0;
    wait_word(words + (STEPS - 1) * stride, tag);  // one word at first: the others would only load the memory
    bool ready = false;
    while (!ready) {
        ready = true;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            uint4 pair = ptx::load_word_pair(words + s * stride);
            payloads[s][0] = pair.x;
            payloads[s][1] = pair.z;
            ready = ready && pair.y == tag && pair.w == tag;
        }
        if (!ready) ptx::spin(rounds);
    }
}
