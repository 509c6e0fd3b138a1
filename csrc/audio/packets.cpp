// Many Opus packets in one call, so that a thread of the server gives up the interpreter's lock once for a chunk of
// sound and not once for every 20 ms of it. Knows libopus only by the address of its encode function.

#include <cstdint>

namespace {

// opus_encode(state, pcm, frame_size, data, max_data_bytes): bytes written, or a negative error code.
using Encode = int32_t (*)(void* encoder, const int16_t* pcm, int frame_samples, uint8_t* out, int32_t capacity);

}  // namespace

// pcm: int16 [packets * frame_samples]. The packets are written behind one another to `out`, which has room for `packets`
// times `capacity` bytes; lengths: [packets]. Returns the bytes written, or libopus' error.
extern "C" int32_t kf_opus_packets(Encode encode, void* encoder, const int16_t* pcm, int32_t frame_samples,
                                   int32_t packets, uint8_t* out, int32_t capacity, int32_t* lengths) {
  int32_t written = 0;
  for (int32_t i = 0; i < packets; ++i) {
    const int32_t length =
        encode(encoder, pcm + static_cast<int64_t>(i) * frame_samples, frame_samples, out + written, capacity);
    if (length < 0) return length;
    lengths[i] = length;
    written += length;
  }
  return written;
}
