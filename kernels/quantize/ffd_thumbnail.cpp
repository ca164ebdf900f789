// FFD thumbnail and residual of a block of keys. Compiled without contraction of a*b+c, because codes must be
// reproduced bit for bit.
#include "kernels/quantize/ffd_thumbnail.h"

#include <algorithm>
#include <cmath>

#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

float codebook_offset(int bits) { return static_cast<float>((1 << bits) - 1) / 2.0f; }

template <class RoundResidual>
void residual_rows(const float* keys, const float* thumbnail, std::int64_t tokens, int head_dim, float* residual,
                   RoundResidual&& round) {
  for (std::int64_t t = 0; t < tokens; ++t)
    for (int d = 0; d < head_dim; ++d) {
      const std::int64_t i = t * head_dim + d;
      residual[i] = round(keys[i], thumbnail[i], d);
    }
}

template <class Difference>
void write_residual(const FfdQuantizer& quantizer, const float* keys, const float* thumbnail, std::int64_t tokens,
                    int head_dim, std::span<const float> scales, float* residual, Difference&& difference) {
  switch (quantizer.residual) {
    case FfdResidual::fp8:
      return residual_rows(keys, thumbnail, tokens, head_dim, residual,
                           [&](float k, float t, int) { return round_to_e4m3(difference(k, t)); });
    case FfdResidual::int8:
      return residual_rows(keys, thumbnail, tokens, head_dim, residual, [&](float k, float t, int d) {
        const float step = scales[static_cast<std::size_t>(d)] / 2.0f / 127.0f;
        if (step == 0) return 0.0f;
        return round_half_even(std::clamp(difference(k, t) / step, -127.0f, 127.0f)) * step;
      });
    case FfdResidual::none:
    case FfdResidual::exact:
      std::fill(residual, residual + tokens * head_dim, 0.0f);
      return;
  }
}

}  // namespace

void ffd_scales(const FfdQuantizer& quantizer, const float* keys, std::int64_t tokens, int head_dim,
                std::span<float> scales) {
  std::fill(scales.begin(), scales.end(), 0.0f);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float* key = keys + t * head_dim;
    for (int d = 0; d < head_dim; ++d) {
      const float a = std::fabs(key[d]);
      scales[static_cast<std::size_t>(d)] =
          a > scales[static_cast<std::size_t>(d)] ? a : scales[static_cast<std::size_t>(d)];
    }
  }
  const float z = codebook_offset(quantizer.bits);
  for (float& s : scales) {
    s = std::max(s / z, 1e-8f);
    if (quantizer.arithmetic == QuantArithmetic::dump) s = round_to(quantizer.element_type, s);
  }
}

void ffd_quantize(const FfdQuantizer& quantizer, const float* keys, std::int64_t tokens, int head_dim,
                  std::span<const float> scales, float* thumbnail, float* residual) {
  const float z = codebook_offset(quantizer.bits), top = 2 * z;
  const float* s = scales.data();
  if (quantizer.arithmetic == QuantArithmetic::float32) {
    for (std::int64_t t = 0; t < tokens; ++t)
      for (int d = 0; d < head_dim; ++d) {
        const float position = keys[t * head_dim + d] / s[d] + z;
        thumbnail[t * head_dim + d] = (round_half_even(std::clamp(position, 0.0f, top)) - z) * s[d];
      }
    if (residual != nullptr)
      write_residual(quantizer, keys, thumbnail, tokens, head_dim, scales, residual,
                     [](float k, float t) { return k - t; });
    return;
  }
  const ElementType type = quantizer.element_type;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (int d = 0; d < head_dim; ++d) {
      const std::int64_t i = t * head_dim + d;
      const float position = s[d] == 0 ? z : round_to(type, round_to(type, keys[i] / s[d]) + z);
      thumbnail[i] = (round_half_even(std::clamp(position, 0.0f, top)) - z) * s[d];
    }
  if (residual != nullptr)
    write_residual(quantizer, keys, thumbnail, tokens, head_dim, scales, residual,
                   [type](float k, float t) { return round_to(type, k - round_to(type, t)); });
}

}  // namespace attest
