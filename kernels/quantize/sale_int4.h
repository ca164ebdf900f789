// SALE's symmetric 4-bit integers: s = absmax / 7, code = round_half_even(x * 7 / absmax), no clamp. A group of zeros
// has code 0. Source: BirdChristopher/SALE int4_flash_attn/quant_triton.py.
#pragma once

#include <cstdint>
#include <span>

namespace attest {

inline constexpr int kSaleBlock =
    32;  ///< tokens: among them scales are shared, and of them the method keeps all or none

enum class SaleKeyScale : std::uint8_t {
  block,  ///< upstream's mode 3: in a block of 32 tokens those with equal floor((j mod 8) / 2) share a scale (8 tokens)
  token,  ///< mode 2
};

/// rows [tokens, dim] to codes [tokens, dim], each token with its scale, over all of its channels.
void sale_quantize_tokens(const float* rows, std::int64_t tokens, int dim, float* codes, std::span<float> scales);

/// The same for keys that count from token 0, which share scales by `kind`. scales [tokens].
void sale_quantize_keys(SaleKeyScale kind, const float* keys, std::int64_t tokens, int dim, float* codes,
                        std::span<float> scales);

}  // namespace attest
