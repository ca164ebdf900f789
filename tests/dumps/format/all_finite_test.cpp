// all_finite against std::isfinite of each element, for a bad value at any place.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "dumps/format/value_check.h"

namespace attest {
namespace {

struct Encoding {
  ElementType type;
  std::size_t bytes;
  std::vector<std::uint32_t> finite, not_finite;
};

const Encoding kEncodings[] = {
    {ElementType::float16, 2, {0, 0x8000, 0x7BFF, 0xFBFF, 0x0001, 0x83FF}, {0x7C00, 0xFC00, 0x7C01, 0xFFFF, 0x7E00}},
    {ElementType::bfloat16, 2, {0, 0x8000, 0x7F7F, 0xFF7F, 0x0001, 0x807F}, {0x7F80, 0xFF80, 0x7F81, 0xFFFF, 0x7FC0}},
    {ElementType::float32,
     4,
     {0, 0x80000000, 0x7F7FFFFF, 0xFF7FFFFF, 1, 0x807FFFFF},
     {0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF, 0x7FC00000}}};

std::vector<std::byte> encode(const Encoding& encoding, const std::vector<std::uint32_t>& elements) {
  std::vector<std::byte> bytes(elements.size() * encoding.bytes);
  for (std::size_t i = 0; i < elements.size(); ++i)
    std::memcpy(bytes.data() + i * encoding.bytes, &elements[i], encoding.bytes);
  return bytes;
}

TEST(AllFinite, FindsABadValueAtAnyPlace) {
  for (const Encoding& encoding : kEncodings)
    for (const std::size_t count : {1u, 31u, 4095u, 4096u, 4097u, 9000u}) {
      std::vector<std::uint32_t> elements(count);
      for (std::size_t i = 0; i < count; ++i) elements[i] = encoding.finite[i % encoding.finite.size()];
      EXPECT_TRUE(all_finite(encoding.type, encode(encoding, elements))) << count;
      for (std::size_t bad = 0; bad < count; bad += std::max<std::size_t>(1, count / 7)) {
        std::vector<std::uint32_t> changed = elements;
        changed[bad] = encoding.not_finite[bad % encoding.not_finite.size()];
        EXPECT_FALSE(all_finite(encoding.type, encode(encoding, changed))) << bad << " of " << count;
      }
      std::vector<std::uint32_t> last = elements;
      last.back() = encoding.not_finite[0];
      EXPECT_FALSE(all_finite(encoding.type, encode(encoding, last))) << count;
    }
  EXPECT_TRUE(all_finite(ElementType::float32, {}));
}

}  // namespace
}  // namespace attest
