// FFD's split of the key cache: a low-bit thumbnail for the scan and an 8-bit residual for the refinement.
// Source: Faster Than Flash, "Content-Aware Scanning via Low-Bit Quantization" and appendix on quantisation (symmetric
// mid-rise codebook).
#pragma once

#include <cstdint>
#include <span>

#include "dumps/element_type.h"
#include "kernels/quantize/quant_arithmetic.h"

namespace attest {

enum class FfdResidual : std::uint8_t { fp8, int8, none, exact };

/// Codebook for b bits: {0 .. 2^b - 1} - z with z = (2^b - 1) / 2. It has no zero: b = 2 gives {-1.5, -0.5, 0.5, 1.5}.
struct FfdQuantizer {
  int bits = 2;
  FfdResidual residual = FfdResidual::fp8;
  QuantArithmetic arithmetic = QuantArithmetic::float32;
  ElementType element_type = ElementType::float32;  ///< what r() rounds to under QuantArithmetic::dump
};

/// scales[d] = max(max_j |keys[j][d]| / z, 1e-8) over keys [tokens, D]. Under `dump`, r() rounds each scale.
void ffd_scales(const FfdQuantizer& quantizer, const float* keys, std::int64_t tokens, int head_dim,
                std::span<float> scales);

///   code = round_half_even(clamp(k / s + z, 0, 2^b - 1)), all in float32 with true division
///   k^ = (code - z) * s
/// thumbnail [tokens, D] receives k^. residual [tokens, D] receives the correction that the refinement adds to k^:
/// fp8 (e4m3fn, unscaled, saturating), int8 (scale s / 2 / 127), or zero (`none`, `exact`). residual may be null.
/// Under `dump`: code = round_half_even(clamp(r(r(k / s) + z), 0, 2^b - 1)), and the residual is that of r(k - r(k^)).
/// If r() rounds a scale to 0, k^ = 0.
void ffd_quantize(const FfdQuantizer& quantizer, const float* keys, std::int64_t tokens, int head_dim,
                  std::span<const float> scales, float* thumbnail, float* residual);

}  // namespace attest
