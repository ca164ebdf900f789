// SALE symmetric 4-bit quantisation: s = absmax / 7, code = round_half_even(x * 7 / absmax), no clamp. The codes of a
// group of zeros are 0. Source: BirdChristopher/SALE int4_flash_attn/quant_triton.py.
#pragma once

#include <cstdint>
#include <span>

namespace attest {

/// Tokens per block. Scales are shared only within a block, and the method keeps or drops whole blocks.
inline constexpr int kSaleBlock = 32;

enum class SaleKeyScale : std::uint8_t {
  block,  ///< upstream mode 3: the 8 tokens j of a block of 32 that have equal floor((j mod 8) / 2) share a scale
  token,  ///< upstream mode 2: one scale per token
};

/// Quantises rows [tokens, dim] to codes [tokens, dim] with one scale per token, over all of its channels. scales
/// [tokens].
void sale_quantize_tokens(const float* rows, std::int64_t tokens, int dim, float* codes, std::span<float> scales);

/// The same for keys, whose scales are shared as `kind` says. keys[0] must start a block of 32 tokens. scales [tokens].
void sale_quantize_keys(SaleKeyScale kind, const float* keys, std::int64_t tokens, int dim, float* codes,
                        std::span<float> scales);

}  // namespace attest
