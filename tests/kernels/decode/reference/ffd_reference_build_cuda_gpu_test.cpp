// The content of a row-major FFD cache: bit for bit what the CPU's quantiser makes. That a cache that grows token by
// token is the same: ffd_decode_cuda_gpu_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>

#include "kernels/quantize/ffd_thumbnail.h"
#include "tests/kernels/decode/cache_on_gpu.h"

namespace attest::test {
namespace {

/// The value of an e4m3fn code.
float e4m3(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return static_cast<float>((code & 0x80) != 0 ? -size : size);
}

struct CacheCase {
  ElementType type;
  int head_dim, value_dim, bits;
  friend std::ostream& operator<<(std::ostream& out, const CacheCase& c) {
    return out << name_of(c.type) << ", D " << c.head_dim << ", Dv " << c.value_dim << ", " << c.bits << " bits";
  }
};

/// Dimensions whose codes fill their last byte, and some that do not.
std::vector<CacheCase> cache_cases() {
  std::vector<CacheCase> all;
  for (ElementType type : {ElementType::float16, ElementType::bfloat16})
    for (const auto& [dim, value_dim] : {std::pair{1, 1}, {7, 5}, {64, 64}, {77, 51}, {80, 80}, {192, 128}, {576, 512}})
      for (int bits : {2, 4, 8}) all.push_back({type, dim, value_dim, bits});
  return all;
}

class FfdReferenceBuild : public OnGpuWith<CacheCase> {
 protected:
  /// Keys with a channel of zeros, one beyond what residuals can hold, and one of halves, whose codes are ties.
  DecodeProblem problem(const std::vector<int>& lengths) const {
    const CacheCase& c = GetParam();
    const FfdCacheShape shape{.batch = static_cast<int>(lengths.size()),
                              .num_kv_heads = 2,
                              .group = 1,
                              .head_dim = c.head_dim,
                              .value_dim = c.value_dim,
                              .max_tokens = 400,
                              .element_type = c.type,
                              .bits = c.bits,
                              .layout = FfdCacheLayout::row_major};
    DecodeProblem made = make_decode_problem(shape, {}, lengths, false, 5);
    Random random(6);
    for (std::int64_t pair = 0; pair < made.pairs() && c.head_dim > 6; ++pair)
      for (int t = 0; t < made.length(pair); ++t) {
        float* key = made.k.data() + (pair * made.stride + t) * c.head_dim;
        key[1] = 0;
        key[4] = static_cast<float>(random.below(8) - 4) * 14336.0f;
        key[6] = static_cast<float>(random.below(7) - 3) / 2;
      }
    return made;
  }
};

INSTANTIATE_TEST_SUITE_P(All, FfdReferenceBuild, testing::ValuesIn(cache_cases()));

TEST_P(FfdReferenceBuild, CodesAndResidualsAreThoseOfTheCpu) {
  const CacheCase& c = GetParam();
  const DecodeProblem made = problem({400, 130, 100});
  Gpu gpu;
  CacheOnGpu cache(made, gpu);
  const FfdCacheView& view = cache.cache.view();
  const FfdBlockBytes bytes = ffd_block_bytes(made.shape);
  const std::int64_t blocks = made.pairs() * made.shape.max_blocks();
  const auto records =
      gpu.download(static_cast<const std::uint8_t*>(view.records), static_cast<std::size_t>(blocks * bytes.record));
  const auto residuals =
      gpu.download(static_cast<const std::uint8_t*>(view.residual), static_cast<std::size_t>(blocks * bytes.residual));
  const auto values =
      gpu.download(static_cast<const std::uint16_t*>(view.values), static_cast<std::size_t>(blocks * bytes.values / 2));

  const auto dim = static_cast<std::size_t>(c.head_dim), per_token = (dim * static_cast<std::size_t>(c.bits) + 7) / 8;
  const FfdQuantizer quantizer{.bits = c.bits, .residual = FfdResidual::fp8};
  const float z = static_cast<float>((1 << c.bits) - 1) / 2;
  std::vector<float> scales(dim), thumbnail(kFfdBlock * dim), residual(thumbnail.size());
  int compared = 0;
  for (std::int64_t pair = 0; pair < made.pairs(); ++pair)
    for (int b = 0; b < made.full_blocks(pair); ++b, ++compared) {
      const float* keys = made.key(pair, b * kFfdBlock);
      ffd_scales(quantizer, keys, kFfdBlock, c.head_dim, scales);
      ffd_quantize(quantizer, keys, kFfdBlock, c.head_dim, scales, thumbnail.data(), residual.data());
      const std::int64_t block = pair * made.shape.max_blocks() + b;
      const std::uint8_t* record = records.data() + block * bytes.record;
      const std::uint8_t* codes = record + 4 * dim;
      for (std::size_t d = 0; d < dim; ++d) {
        float amax = 0;
        std::memcpy(&amax, record + 4 * d, 4);
        ASSERT_EQ(std::max(amax / z, 1e-8f), scales[d]) << "block " << b << ", channel " << d;
      }
      for (std::size_t t = 0; t < kFfdBlock; ++t) {
        for (std::size_t d = 0; d < dim; ++d) {
          const std::size_t bit = d * static_cast<std::size_t>(c.bits);
          const int code = codes[t * per_token + bit / 8] >> (bit % 8) & ((1 << c.bits) - 1);
          const std::string place =
              "block " + std::to_string(b) + ", token " + std::to_string(t) + ", channel " + std::to_string(d);
          ASSERT_EQ((static_cast<float>(code) - z) * scales[d], thumbnail[t * dim + d]) << place;
          const float stored = e4m3(residuals[static_cast<std::size_t>(block * bytes.residual) + t * dim + d]);
          ASSERT_EQ(std::bit_cast<std::uint32_t>(stored), std::bit_cast<std::uint32_t>(residual[t * dim + d])) << place;
        }
        if (const std::size_t used = dim * static_cast<std::size_t>(c.bits) % 8; used != 0) {
          ASSERT_EQ(codes[t * per_token + per_token - 1] >> used, 0) << "bits behind the last channel, token " << t;
        }
        for (int d = 0; d < c.value_dim; ++d)
          ASSERT_EQ(values[static_cast<std::size_t>(block * bytes.values / 2) +
                           t * static_cast<std::size_t>(c.value_dim) + static_cast<std::size_t>(d)],
                    bits_of(c.type, made.value(pair, b * kFfdBlock + static_cast<int>(t))[d]));
      }
    }
  EXPECT_EQ(compared, 8);
}

}  // namespace
}  // namespace attest::test
