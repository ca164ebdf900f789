// One asymmetric quantiser per token, over all of its channels: Twilight's 4-bit key cache, and DoubleSparse's label
// cache.
#pragma once

#include <cstdint>

namespace attest {

/// Per token lo = min, s = max(max - lo, least_range) / (2^b - 1), code = clamp(round_half_even((x - lo) / s), 0, 2^b -
/// 1), x^ = code * s + lo; s = 0 gives x^ = lo.
struct TokenAsymmetricQuantizer {
  int bits = 4;
  float least_range = 0;
};

/// x, out [tokens, channels]; may be the same.
void quantize_tokens(const TokenAsymmetricQuantizer& quantizer, const float* x, std::int64_t tokens, int channels,
                     float* out);

}  // namespace attest
