// Asymmetric quantisation per token. Compiled without contraction of a*b+c, because x^ must be reproduced bit for bit.
#include "kernels/quantize/token_asymmetric.h"

#include <algorithm>

#include "kernels/quantize/rounding.h"

namespace attest {

void quantize_tokens(const TokenAsymmetricQuantizer& quantizer, const float* x, std::int64_t tokens, int channels,
                     float* out) {
  const auto top = static_cast<float>((1 << quantizer.bits) - 1);
  for (std::int64_t t = 0; t < tokens; ++t, x += channels, out += channels) {
    const auto [lo, hi] = range_of(x, channels);
    const float scale = std::max(hi - lo, quantizer.min_range) / top;
    const float divisor = scale == 0 ? 1.0f : scale;
    for (int d = 0; d < channels; ++d) {
      const float code = std::clamp(round_half_even((x[d] - lo) / divisor), 0.0f, top);
      out[d] = code * scale + lo;
    }
  }
}

}  // namespace attest
