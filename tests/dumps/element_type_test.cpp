// Conversions of element types, against values that are known.
#include "dumps/element_type.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace attest {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A value, its bits, and the bits of a float32 that rounds to it.
struct Known {
  float value;
  std::uint16_t bits;
  float rounded_from;
};

constexpr std::array kHalf{Known{1, 0x3c00, 1 + 0x1p-11f},              // a tie, to the even mantissa
                           Known{1 + 0x1p-9f, 0x3c02, 1 + 0x1.8p-10f},  // a tie, upwards
                           Known{-2, 0xc000, -2},
                           Known{-0.0f, 0x8000, -0x1p-26f},
                           Known{65504, 0x7bff, 65519},
                           Known{kInfinity, 0x7c00, 65520},
                           Known{-kInfinity, 0xfc00, -1e30f},
                           Known{0x1p-24f, 0x0001, 0x1.8p-25f},
                           Known{0, 0x0000, 0x1p-25f},
                           Known{0x1.ff8p-15f, 0x03ff, 0x1.ff8p-15f},
                           Known{0x1p-14f, 0x0400, 0x1p-14f}};

constexpr std::array kBrain{Known{1, 0x3f80, 1 + 0x1p-8f},
                            Known{1 + 0x1p-6f, 0x3f82, 1 + 0x1.8p-7f},
                            Known{-2, 0xc000, -2},
                            Known{-0.0f, 0x8000, -0.0f},
                            Known{kInfinity, 0x7f80, 3.4e38f},
                            Known{0x1.fep127f, 0x7f7f, 0x1.fep127f},
                            Known{0x1p-126f, 0x0080, 0x1p-126f}};

template <class Values>
void expect_known(ElementType type, const Values& values) {
  for (const Known& known : values) {
    std::uint16_t bits = 0;
    float value = 0;
    convert_from_float(type, &known.rounded_from, 1, reinterpret_cast<std::byte*>(&bits));
    EXPECT_EQ(bits, known.bits) << known.rounded_from;
    convert_to_float(type, reinterpret_cast<const std::byte*>(&known.bits), 1, &value);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(known.value)) << known.value;
  }
}

TEST(ElementTypes, HaveKnownValues) {
  expect_known(ElementType::float16, kHalf);
  expect_known(ElementType::bfloat16, kBrain);
}

TEST(ElementTypes, EveryValueGoesThroughFloat32) {
  for (const ElementType type : {ElementType::float16, ElementType::bfloat16})
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto stored = static_cast<std::uint16_t>(bits);
      std::uint16_t back = 0;
      float value = 0;
      convert_to_float(type, reinterpret_cast<const std::byte*>(&stored), 1, &value);
      convert_from_float(type, &value, 1, reinterpret_cast<std::byte*>(&back));
      const bool is_nan = (bits & 0x7fff) > (type == ElementType::float16 ? 0x7c00 : 0x7f80);
      ASSERT_EQ(std::isnan(value), is_nan) << bits;
      if (!is_nan) {
        ASSERT_EQ(back, stored) << name_of(type);
      }
    }
}

TEST(ElementTypes, Float32IsCopied) {
  const std::vector<float> values{1.5f, -kInfinity, 0x1p-149f};
  std::vector<float> stored(values.size()), back(values.size());
  convert_from_float(ElementType::float32, values.data(), values.size(), reinterpret_cast<std::byte*>(stored.data()));
  convert_to_float(ElementType::float32, reinterpret_cast<const std::byte*>(stored.data()), back.size(), back.data());
  EXPECT_EQ(stored, values);
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace attest
