// The largest magnitude of every element type, of either sign, also among subnormals.
#include "kernels/kv_formats/amax.h"

#include <gtest/gtest.h>

#include <vector>

namespace attest::test {
namespace {

TEST(Amax, LargestOfEitherSign) {
  for (const ElementType type : {ElementType::float16, ElementType::bfloat16, ElementType::float32}) {
    std::vector<float> numbers(100, 0x1p-14f);
    const auto found = [&] {
      std::vector<std::byte> bytes(numbers.size() * size_of(type));
      convert_from_float(type, numbers.data(), numbers.size(), bytes.data());
      return max_magnitude(type, bytes.data(), numbers.size());
    };
    EXPECT_EQ(found(), 0x1p-14f);
    numbers[37] = -3.5f;
    EXPECT_EQ(found(), 3.5f);
    numbers[99] = 60000.0f;
    EXPECT_NEAR(found(), 60000.0f, 256);
    numbers.assign(5, -0.0f);
    EXPECT_EQ(found(), 0.0f);
    EXPECT_EQ(max_magnitude(type, nullptr, 0), 0.0f);
  }
}

}  // namespace
}  // namespace attest::test
