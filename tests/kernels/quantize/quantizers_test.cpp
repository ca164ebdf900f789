// Each quantiser against its plain form, bit for bit.
#include <gtest/gtest.h>

#include "kernels/quantize/ffd_thumbnail.h"
#include "kernels/quantize/kivi_groups.h"
#include "kernels/quantize/token_asymmetric.h"
#include "tests/cases.h"
#include "tests/kernels/plain_quantize.h"

namespace attest::test {
namespace {

/// [tokens, channels] that are hard for quantisers: constant and zero channels, outliers, values halfway between codes.
std::vector<float> awkward(std::int64_t tokens, int channels, ElementType type, Random& random) {
  std::vector<float> x(static_cast<std::size_t>(tokens * channels));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t d = i % static_cast<std::size_t>(channels);
    double value = random.normal();
    if (d == 1) value = 0;
    if (d == 2) value = 1.25;
    if (d == 3) value *= 20000;
    if (d == 4) value *= 1e-6;
    if (d == 5) value = static_cast<double>(random.below(7)) / 2;
    if (d == 6) value = 3e-9 * static_cast<double>(random.below(3));
    x[i] = static_cast<float>(to_type(type, std::clamp(value, -60000.0, 60000.0)));
  }
  return x;
}

Row column(const std::vector<float>& x, int channels, std::int64_t first, std::int64_t count, int d) {
  Row out;
  for (std::int64_t t = first; t < first + count; ++t)
    out.push_back(static_cast<double>(x[static_cast<std::size_t>(t * channels + d)]));
  return out;
}

constexpr ElementType kTypes[] = {ElementType::float16, ElementType::bfloat16, ElementType::float32};

TEST(FfdThumbnail, ConformsBitForBit) {
  Random random(11);
  constexpr std::int64_t kTokens = 48;
  constexpr int kChannels = 21;
  const std::pair<FfdResidual, std::string> residuals[] = {{FfdResidual::fp8, "fp8"},
                                                           {FfdResidual::int8, "int8"},
                                                           {FfdResidual::none, "none"},
                                                           {FfdResidual::exact, "exact"}};
  for (ElementType type : kTypes)
    for (int bits : {1, 2, 3, 4, 8})
      for (QuantArithmetic arithmetic : {QuantArithmetic::float32, QuantArithmetic::dump})
        for (const auto& [residual, name] : residuals) {
          const std::vector<float> keys = awkward(kTokens, kChannels, type, random);
          const FfdQuantizer quantizer{bits, residual, arithmetic, type};
          std::vector<float> scales(kChannels), thumbnail(keys.size()), rest(keys.size());
          ffd_scales(quantizer, keys.data(), kTokens, kChannels, scales);
          ffd_quantize(quantizer, keys.data(), kTokens, kChannels, scales, thumbnail.data(), rest.data());
          for (int d = 0; d < kChannels; ++d) {
            const PlainFfdGroup plain = plain_ffd(column(keys, kChannels, 0, kTokens, d), bits, name,
                                                  arithmetic == QuantArithmetic::dump, type);
            ASSERT_EQ(static_cast<double>(scales[static_cast<std::size_t>(d)]), plain.scale);
            ASSERT_EQ(column(thumbnail, kChannels, 0, kTokens, d), plain.thumbnail)
                << bits << " bits, " << name_of(type) << ", channel " << d;
            ASSERT_EQ(column(rest, kChannels, 0, kTokens, d), plain.residual)
                << bits << " bits, " << name << ", " << name_of(type) << ", channel " << d;
          }
        }
}

TEST(KiviGroups, ConformBitForBit) {
  Random random(12);
  constexpr int kChannels = 48;
  for (ElementType type : kTypes)
    for (int bits : {2, 4})
      for (QuantArithmetic arithmetic : {QuantArithmetic::float32, QuantArithmetic::dump})
        for (int group : {1, 3, 16, 24}) {
          const std::int64_t tokens = 3 * group;
          const bool dump = arithmetic == QuantArithmetic::dump;
          const std::vector<float> x = awkward(tokens, kChannels, type, random);
          const KiviQuantizer quantizer{bits, group, arithmetic, type};
          std::vector<float> by_channel(x.size()), by_token(x.size());
          kivi_quantize_per_channel(quantizer, x.data(), tokens, kChannels, by_channel.data());
          kivi_quantize_per_token(quantizer, x.data(), tokens, kChannels, by_token.data());
          for (std::int64_t begin = 0; begin < tokens; begin += group)
            for (int d = 0; d < kChannels; ++d)
              ASSERT_EQ(column(by_channel, kChannels, begin, group, d),
                        plain_kivi(column(x, kChannels, begin, group, d), bits, dump, type))
                  << bits << " bits, group " << group << ", " << name_of(type) << ", channel " << d;
          for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(group)) {
            const auto first = static_cast<std::ptrdiff_t>(begin);
            ASSERT_EQ(Row(by_token.begin() + first, by_token.begin() + first + group),
                      plain_kivi(Row(x.begin() + first, x.begin() + first + group), bits, dump, type))
                << bits << " bits, group " << group << ", " << name_of(type);
          }
        }
}

TEST(TokenAsymmetric, ConformsBitForBit) {
  Random random(13);
  constexpr int kChannels = 37;
  for (ElementType type : kTypes)
    for (int bits : {2, 4, 8})
      for (float min_range : {0.0f, 1e-9f}) {
        std::vector<float> x = awkward(40, kChannels, type, random);
        std::fill_n(x.begin(), kChannels, 2.5f);  // a range of zero
        std::fill_n(x.begin() + kChannels, kChannels, 0.0f);
        x[static_cast<std::size_t>(kChannels) + 1] = 3e-10f;  // a range below min_range
        std::vector<float> found(x.size());
        quantize_tokens({bits, min_range}, x.data(), 40, kChannels, found.data());
        for (std::ptrdiff_t t = 0; t < 40; ++t)
          ASSERT_EQ(Row(found.begin() + t * kChannels, found.begin() + (t + 1) * kChannels),
                    plain_token(Row(x.begin() + t * kChannels, x.begin() + (t + 1) * kChannels), bits,
                                static_cast<double>(min_range)))
              << bits << " bits, token " << t;
      }
}

}  // namespace
}  // namespace attest::test
