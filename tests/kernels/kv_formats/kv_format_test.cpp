// Every format against its plain form on rows of many kinds, its bytes, and what it refuses.
#include "kernels/kv_formats/kv_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/kv_formats/made_rows.h"
#include "tests/kernels/kv_formats/plain_formats.h"
#include "tests/near.h"

namespace attest::test {
namespace {

Row stored(const KvFormat& format, const KvRows& rows, float scale, const Row& x) {
  const std::vector<float> row(x.begin(), x.end());
  Row out(x.size() + 3, 7.0);  // two rows of a stride beyond C: what lies between is left alone
  Row two(2 * out.size(), 7.0);
  std::vector<float> twice(row);
  twice.insert(twice.end(), row.begin(), row.end());
  format.apply(rows, scale, twice.data(), 2, two.data(), static_cast<std::int64_t>(out.size()));
  for (std::size_t d = 0; d < x.size(); ++d)
    EXPECT_TRUE(two[d] == two[out.size() + d] || std::isnan(two[d])) << format.name;
  EXPECT_EQ(two[x.size()], 7.0) << format.name;
  two.resize(x.size());
  return two;
}

/// Rotations are undone by sums in another order: relative to the largest number of the row.
constexpr double kRotated = 1e-13;

int compare(const KvFormat& format, const KvRows& rows, float scale) {
  const std::string name(format.name);
  const bool rotates = name[0] == 'q' || name == "int4_token_head" || (name[0] == 't' && rows.keys);
  int inexact = 0;
  for (const Row& x : made_rows(rows.channels)) {
    const Row expected = plain_stored(name, rows, scale, x), found = stored(format, rows, scale, x);
    const double allowed = rotates && std::isfinite(magnitude(expected)) ? kRotated * magnitude(expected) : 0;
    for (std::size_t d = 0; d < x.size(); ++d) {
      // float16 holds no more than 65504: a rotation adds infinities, in another order.
      if (rotates && !std::isfinite(expected[d]) && !std::isfinite(found[d])) continue;
      EXPECT_TRUE(near(found[d], expected[d], allowed))
          << name << (rows.keys ? ", key" : ", value") << " of " << rows.channels << " channels, scale " << scale
          << ", channel " << d << " is " << x[d];
      inexact += found[d] != x[d];
    }
    if (::testing::Test::HasFailure()) break;
  }
  return inexact;
}

TEST(KvFormat, EveryFormatIsItsPlainForm) {
  for (const KvFormat* format : kv_formats())
    for (const bool keys : {true, false})
      for (const bool rotate : {true, false})
        for (const int channels : {2, 16, 32, 64, 80, 128, 192, 256, 320, 512, 576, 1024})
          for (const ElementType type : {ElementType::float16, ElementType::bfloat16, ElementType::float32}) {
            const KvRows rows{.keys = keys,
                              .channels = channels,
                              .shared_values = keys && channels == 576 ? 512 : 0,
                              .rotate = rotate,
                              .element_type = type};
            if ((!keys && !format->of_values) || !format->fault(rows).empty()) continue;
            if ((type != ElementType::bfloat16 || !rotate) && format->name != "int4_token_head" &&
                !(format->name[0] == 'q' && type == ElementType::bfloat16))
              continue;  // only these know of it
            for (const float scale : {1.0f, 0.0123f, 37.0f}) {
              if (scale != 1 && format->scale_divisor == 0) continue;
              EXPECT_GT(compare(*format, rows, scale), 5 * channels) << format->name;
              if (::testing::Test::HasFailure()) return;
            }
          }
}

TEST(KvFormat, CentroidsOfTurboquantAreThePublishedOnes) {
  constexpr double kFloat32 = 2e-8;  // they are rounded to float32
  const Row four = plain_centroids(4, 128), three = plain_centroids(3, 128);
  const double expected4[] = {.011351509, .0343068577, .0580605306, .0833014399,
                              .111038528, .143001899,  .182826623,  .241381705};
  const double expected3[] = {.021653695, .0667902604, .118721463, .190065846};
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(four[8 + i], expected4[i], kFloat32);
    EXPECT_NEAR(four[7 - i], -expected4[i], kFloat32);
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(three[4 + i], expected3[i], kFloat32);
}

TEST(KvFormat, BytesPerToken) {
  const auto bytes = [](const char* name, int channels, bool keys = true, int shared = 0) {
    return find_kv_format(name)->bytes({.keys = keys, .channels = channels, .shared_values = shared});
  };
  EXPECT_EQ(bytes("fp8_e4m3", 128), 128);
  EXPECT_EQ(bytes("fp8_e5m2", 128), 128);
  EXPECT_EQ(bytes("nvfp4", 128), 72);
  EXPECT_EQ(bytes("nvfp4_4over6", 128), 72);
  EXPECT_EQ(bytes("q8_0", 128), 136);
  EXPECT_EQ(bytes("q5_1", 128), 96);
  EXPECT_EQ(bytes("q5_0", 128), 88);
  EXPECT_EQ(bytes("q4_1", 128), 80);
  EXPECT_EQ(bytes("q4_0", 128), 72);
  EXPECT_EQ(bytes("turboquant4", 128), 66);
  EXPECT_EQ(bytes("turboquant4", 128, false), 68);
  EXPECT_EQ(bytes("turboquant3", 4), 4);
  EXPECT_EQ(bytes("turboquant3", 128, false), 52);
  EXPECT_EQ(bytes("int4_token_head", 128), 68);
  EXPECT_EQ(bytes("fp8_ds_mla", 576, true, 512), 656);
}

TEST(KvFormat, ChannelsThatDoNotFit) {
  const auto fault = [](const char* name, int channels, bool keys = true, int shared = 0) {
    return find_kv_format(name)->fault({.keys = keys, .channels = channels, .shared_values = shared});
  };
  EXPECT_EQ(fault("nvfp4", 72), "72 channels, expected a multiple of 16");
  EXPECT_EQ(fault("q4_0", 80), "80 channels, expected a multiple of 32");
  EXPECT_EQ(fault("turboquant4", 96), "96 channels, expected a power of 2");
  EXPECT_EQ(fault("turboquant4", 96, false), "");
  EXPECT_EQ(fault("int4_token_head", 96), "96 channels, expected a power of 2");
  EXPECT_EQ(fault("int4_token_head", 512), "512 channels, expected at most 256: the released code draws no more signs");
  EXPECT_EQ(fault("fp8_ds_mla", 576),
            "no values among their channels, expected latent attention (dump attribute values_in_keys)");
  EXPECT_EQ(fault("fp8_ds_mla", 576, true, 500), "500 channels that are the values, expected a multiple of 128");
  EXPECT_EQ(fault("fp8_e4m3", 7), "");
}

TEST(KvFormat, NamesAreFound) {
  EXPECT_EQ(kv_formats().size(), 13);
  for (const KvFormat* format : kv_formats()) {
    EXPECT_EQ(find_kv_format(format->name), format);
    EXPECT_FALSE(format->rule.empty() || format->source.empty() || format->bytes_text.empty()) << format->name;
  }
  EXPECT_EQ(find_kv_format("native"), nullptr);
}

}  // namespace
}  // namespace attest::test
