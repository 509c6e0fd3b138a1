// The one matrix kernel: y[m] = bias + sum over taps of x[m + tap * dilation] · W[tap].
//
// One tap is a linear layer; several taps are a causal convolution over channels-last rows; a transposed
// convolution with kernel 2s and stride s is two taps with s * outputs columns. Weights lie in panels of
// columns, [panel][tap][input][column], so that each is read once, in order, for a block of rows.
#pragma once

#include <algorithm>
#include <vector>

#include "simd.h"
#include "team.h"

namespace kf {

class Linear {
  public:
    int inputs = 0, outputs = 0, taps = 1;

    // `weight(tap, input, output)` gives the entry; `bias` may be null.
    template <class W>
    void pack(int taps_, int inputs_, int outputs_, W weight, const float* bias) {
        taps = taps_, inputs = inputs_, outputs = outputs_;
        vectors_ = best_width(outputs);
        const int width = vectors_ * VL;
        panels_ = (outputs + width - 1) / width;
        weights_.assign((size_t)panels_ * taps * inputs * width, 0);
        bias_.assign((size_t)panels_ * width, 0.0f);
        for (int panel = 0; panel < panels_; panel++)
            for (int tap = 0; tap < taps; tap++)
                for (int i = 0; i < inputs; i++)
                    for (int c = 0; c < width; c++) {
                        const int output = panel * width + c;
                        if (output >= outputs) break;
                        const float value = weight(tap, i, output);
                        const Weight stored = to_weight(value);
                        rounding = std::max(rounding, std::fabs(from_weight(stored) - value));
                        weights_[(((size_t)panel * taps + tap) * inputs + i) * width + c] = stored;
                    }
        if (bias) std::copy(bias, bias + outputs, bias_.begin());
    }

    // The largest change of a weight by rounding; 0 if the checkpoint was fp16.
    float rounding = 0.0f;

    // x: rows of `stride` floats, dilation in rows; y: rows of y_stride floats, overwritten or (add) added to.
    void run(const float* x, int rows, int stride, float* y, int y_stride, bool add = false, int dilation = 1) const {
        run_panels(0, panels_, x, rows, stride, y, y_stride, add, dilation);
    }

    // The same by two threads, half of the columns each.
    void run(Team& team, const float* x, int rows, int stride, float* y, int y_stride, bool add = false) const {
        const int half = (panels_ + 1) / 2;
        team.split([&](int share) {
            run_panels(share ? half : 0, share ? panels_ : half, x, rows, stride, y, y_stride, add, 1);
        });
    }

  private:
    void run_panels(int first, int end, const float* x, int rows, int stride, float* y, int y_stride, bool add,
                    int dilation) const {
        for (int panel = first; panel < end; panel++) {
            switch (vectors_) {
                case 4: run_panel<4, 6>(panel, x, rows, stride, dilation, y, y_stride, add); break;
                case 3: run_panel<3, 8>(panel, x, rows, stride, dilation, y, y_stride, add); break;
                case 2: run_panel<2, 12>(panel, x, rows, stride, dilation, y, y_stride, add); break;
                default: run_panel<1, 12>(panel, x, rows, stride, dilation, y, y_stride, add);
            }
        }
    }

    int vectors_ = 4, panels_ = 0;
    std::vector<Weight> weights_;
    std::vector<float> bias_;

    // Vectors per panel: as wide as possible without much padding.
    static int best_width(int outputs) {
        int best = 4;
        double best_cost = 1e30;
        for (int vectors = 4; vectors >= 1; vectors--) {
            const double cost = round_up(outputs, vectors * VL) * (1.0 + 0.08 * (4 - vectors));
            if (cost < best_cost) best = vectors, best_cost = cost;
        }
        return best;
    }

    template <int NV, int MB>
    void run_panel(int panel, const float* x, int rows, int stride, int dilation, float* y, int y_stride,
                   bool add) const {
        const int column = panel * NV * VL;
        int m = 0;
        auto block = [&](auto size) {
            constexpr int B = decltype(size)::value;
            for (; rows - m >= B; m += B)
                kernel<NV, B>(panel, x + (size_t)m * stride, stride, dilation, y + (size_t)m * y_stride + column,
                              y_stride, add);
        };
        block(std::integral_constant<int, MB>{});
        block(std::integral_constant<int, 4>{});
        block(std::integral_constant<int, 2>{});
        block(std::integral_constant<int, 1>{});
    }

    template <int NV, int MB>
    void kernel(int panel, const float* x, int stride, int dilation, float* y, int y_stride, bool add) const {
        vf acc[MB][NV];
        const float* bias = bias_.data() + (size_t)panel * NV * VL;
        for (int m = 0; m < MB; m++)
            for (int v = 0; v < NV; v++) acc[m][v] = load(bias + v * VL);
        const Weight* w = weights_.data() + (size_t)panel * taps * inputs * NV * VL;
        for (int tap = 0; tap < taps; tap++) {
            const float* row = x + (size_t)tap * dilation * stride;
            for (int i = 0; i < inputs; i++, w += NV * VL) {
                vf weight[NV];
                for (int v = 0; v < NV; v++) weight[v] = load_weights(w + v * VL);
                for (int m = 0; m < MB; m++) {
                    const vf value = splat(row[(size_t)m * stride + i]);
                    for (int v = 0; v < NV; v++) acc[m][v] = fma(value, weight[v], acc[m][v]);
                }
            }
        }
        const int columns = std::min(NV * VL, outputs - panel * NV * VL);
        for (int m = 0; m < MB; m++) {
            float* out = y + (size_t)m * y_stride;
            for (int v = 0; v < NV; v++) {
                const int left = columns - v * VL;
                if (left >= VL) {
                    store(out + v * VL, add ? acc[m][v] + load(out + v * VL) : acc[m][v]);
                } else {
                    for (int c = 0; c < left; c++) out[v * VL + c] = acc[m][v][c] + (add ? out[v * VL + c] : 0.0f);
                }
            }
        }
    }
};

}  // namespace kf
