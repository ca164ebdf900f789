// KIVI group quantisation. Compiled without contraction of a*b+c, because x^ must be reproduced bit for bit.
#include "kernels/quantize/kivi_groups.h"

#include <algorithm>
#include <vector>

#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

/// The scalar steps of both arithmetics. dequantised() divides by 1 where the scale is 0, so that all codes are 0.
struct Float32Steps {
  float top;
  float scale(float lo, float hi) const { return (hi - lo) / top; }
  float position(float x, float lo, float scale) const { return (x - lo) / scale; }
};
struct DumpSteps {
  float top;
  ElementType type;
  float scale(float lo, float hi) const { return round_to(type, round_to(type, hi - lo) / top); }
  float position(float x, float lo, float scale) const { return round_to(type, round_to(type, x - lo) / scale); }
};

template <class Steps>
float dequantised(const Steps& steps, float x, float lo, float scale) {
  const float position = steps.position(x, lo, scale == 0 ? 1.0f : scale);
  return round_half_even(std::clamp(position, 0.0f, steps.top)) * scale + lo;
}

template <class Run>
void with_steps(const KiviQuantizer& quantizer, Run&& run) {
  const auto top = static_cast<float>((1 << quantizer.bits) - 1);
  if (quantizer.arithmetic == QuantArithmetic::float32)
    run(Float32Steps{top});
  else
    run(DumpSteps{top, quantizer.element_type});
}

}  // namespace

void kivi_quantize_per_channel(const KiviQuantizer& quantizer, const float* x, std::int64_t tokens, int channels,
                               float* out) {
  std::vector<float> lowest(static_cast<std::size_t>(channels)), scales(lowest.size());
  float *lo = lowest.data(), *scale = scales.data();
  with_steps(quantizer, [&](const auto& steps) {
    for (std::int64_t begin = 0; begin < tokens; begin += quantizer.group) {
      const float* first = x + begin * channels;
      std::copy_n(first, channels, lo);
      std::copy_n(first, channels, scale);  // holds the running maximum for now
      for (std::int64_t t = 1; t < quantizer.group; ++t)
        for (int d = 0; d < channels; ++d) {
          const float value = first[t * channels + d];
          lo[d] = std::min(lo[d], value);
          scale[d] = std::max(scale[d], value);
        }
      for (int d = 0; d < channels; ++d) scale[d] = steps.scale(lo[d], scale[d]);
      float* target = out + begin * channels;
      for (std::int64_t t = 0; t < quantizer.group; ++t)
        for (int d = 0; d < channels; ++d)
          target[t * channels + d] = dequantised(steps, first[t * channels + d], lo[d], scale[d]);
    }
  });
}

void kivi_quantize_per_token(const KiviQuantizer& quantizer, const float* x, std::int64_t tokens, int channels,
                             float* out) {
  const std::int64_t groups = tokens * (channels / quantizer.group);
  with_steps(quantizer, [&](const auto& steps) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const float* from = x + g * quantizer.group;
      const auto [lo, hi] = range_of(from, quantizer.group);
      const float scale = steps.scale(lo, hi);
      float* to = out + g * quantizer.group;
      for (int i = 0; i < quantizer.group; ++i) to[i] = dequantised(steps, from[i], lo, scale);
    }
  });
}

}  // namespace attest
