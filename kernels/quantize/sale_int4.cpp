// SALE 4-bit quantisation. Compiled without contraction of a*b+c, because codes must be reproduced bit for bit.
#include "kernels/quantize/sale_int4.h"

#include <algorithm>
#include <cmath>

#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

constexpr std::int64_t kBlock = 32;

float largest_magnitude(const float* row, int dim) {
  const auto [lo, hi] = range_of(row, dim);
  return std::max(std::fabs(lo), std::fabs(hi));
}

void write_codes(const float* row, int dim, float absmax, float* codes) {
  for (int d = 0; d < dim; ++d) codes[d] = absmax == 0 ? 0.0f : round_half_even(row[d] * 7.0f / absmax);
}

}  // namespace

void sale_quantize_tokens(const float* rows, std::int64_t tokens, int dim, float* codes, std::span<float> scales) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float absmax = largest_magnitude(rows + t * dim, dim);
    write_codes(rows + t * dim, dim, absmax, codes + t * dim);
    scales[static_cast<std::size_t>(t)] = absmax / 7.0f;
  }
}

void sale_quantize_keys(SaleKeyScale kind, const float* keys, std::int64_t tokens, int dim, float* codes,
                        std::span<float> scales) {
  if (kind == SaleKeyScale::token) return sale_quantize_tokens(keys, tokens, dim, codes, scales);
  for (std::int64_t begin = 0; begin < tokens; begin += kBlock) {
    const std::int64_t end = std::min(tokens, begin + kBlock);
    float absmax[4] = {};
    const auto group = [](std::int64_t t) { return (t % 8) / 2; };
    for (std::int64_t t = begin; t < end; ++t)
      absmax[group(t)] = std::max(absmax[group(t)], largest_magnitude(keys + t * dim, dim));
    for (std::int64_t t = begin; t < end; ++t) {
      write_codes(keys + t * dim, dim, absmax[group(t)], codes + t * dim);
      scales[static_cast<std::size_t>(t)] = absmax[group(t)] / 7.0f;
    }
  }
}

}  // namespace attest
