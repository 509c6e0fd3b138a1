// The model's tensors, handed over as a list in a fixed order; each layer takes its own and checks the size.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace kf {

struct Tensor {
    const float* data;
    int64_t count;
};

class Reader {
  public:
    Reader(const Tensor* tensors, int count) : tensors_(tensors), count_(count) {}

    // The next tensor, which must have `expected` elements. Throws std::invalid_argument.
    const float* take(int64_t expected, const char* what) {
        if (next_ >= count_) throw std::invalid_argument(std::string("no tensor left for ") + what);
        const Tensor& tensor = tensors_[next_++];
        if (tensor.count != expected)
            throw std::invalid_argument(std::string(what) + " (tensor " + std::to_string(next_ - 1) + ") has " +
                                        std::to_string(tensor.count) + " elements, expected " +
                                        std::to_string(expected));
        return tensor.data;
    }

    void finish() const {
        if (next_ != count_)
            throw std::invalid_argument(std::to_string(count_ - next_) + " tensors were left over");
    }

  private:
    const Tensor* tensors_;
    int count_, next_ = 0;
};

}  // namespace kf
