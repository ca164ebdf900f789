// KIVI asymmetric group quantisation: keys per channel over consecutive tokens, values per token over consecutive
// channels.
// Source: KIVI, section 3 (per-channel keys, per-token values); jy-yuan/KIVI quant/new_pack.py.
#pragma once

#include <cstdint>

#include "dumps/element_type.h"
#include "kernels/quantize/quant_arithmetic.h"

namespace attest {

/// Within a group:
///   lo = min, s = (max - lo) / (2^b - 1)
///   code = round_half_even(clamp((x - lo) / s, 0, 2^b - 1))
///   x^ = code * s + lo; s = 0 gives x^ = lo
/// Under `dump`:
///   s = r(r(max - lo) / (2^b - 1))
///   code = round_half_even(clamp(r(r(x - lo) / s), 0, 2^b - 1)), x^ in float32
struct KiviQuantizer {
  int bits = 2;
  int group = 32;
  QuantArithmetic arithmetic = QuantArithmetic::float32;
  ElementType element_type = ElementType::float32;  ///< what r() rounds to under QuantArithmetic::dump
};

/// x, out [tokens, channels]; a group is one channel of `group` consecutive tokens. tokens is a multiple of group.
void kivi_quantize_per_channel(const KiviQuantizer& quantizer, const float* x, std::int64_t tokens, int channels,
                               float* out);

/// x, out [tokens, channels]; a group is `group` consecutive channels of one token. channels is a multiple of group.
void kivi_quantize_per_token(const KiviQuantizer& quantizer, const float* x, std::int64_t tokens, int channels,
                             float* out);

}  // namespace attest
