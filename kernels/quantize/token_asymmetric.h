// Asymmetric quantisation per token over all of its channels: the 4-bit key cache of Twilight and the label cache of
// DoubleSparse.
#pragma once

#include <cstdint>

namespace attest {

/// Per token:
///   lo = min, s = max(max - lo, min_range) / (2^b - 1)
///   code = clamp(round_half_even((x - lo) / s), 0, 2^b - 1)
///   x^ = code * s + lo; s = 0 gives x^ = lo
struct TokenAsymmetricQuantizer {
  int bits = 4;
  float min_range = 0;
};

/// x, out [tokens, channels]; `out` may be `x`.
void quantize_tokens(const TokenAsymmetricQuantizer& quantizer, const float* x, std::int64_t tokens, int channels,
                     float* out);

}  // namespace attest
