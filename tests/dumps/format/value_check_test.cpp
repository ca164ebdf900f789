// check_values on layers with planted values, and all_finite against std::isfinite of each element, for a bad value at
// any place.
#include "dumps/format/value_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Hq 4, Hkv 2, D 5 (not a multiple of a vector register), Dv 3, T 6, queries at 2 and 5; every value 0.5.
class ValueCheckTest : public ::testing::TestWithParam<ElementType> {
 protected:
  ValueCheckTest() {
    layer_.layer = 9;
    layer_.shape = {.num_query_heads = 4, .num_kv_heads = 2, .head_dim = 5, .value_dim = 3};
    layer_.element_type = GetParam();
    layer_.num_tokens = 6;
    layer_.query_positions = {2, 5};
    fill(layer_.q, 2 * 4 * 5);
    fill(layer_.k, 2 * 6 * 5);
    fill(layer_.v, 2 * 6 * 3);
  }

  void fill(LayerBuffer& buffer, std::size_t count) const {
    buffer.resize(count * size_of(GetParam()));
    for (std::size_t i = 0; i < count; ++i) set(buffer, i, 0.5f);
  }
  void set(LayerBuffer& buffer, std::size_t index, float value) const {
    convert_from_float(GetParam(), &value, 1, buffer.data() + index * size_of(GetParam()));
  }
  std::size_t q_index(std::size_t query, std::size_t head, std::size_t channel) const {
    return (query * 4 + head) * 5 + channel;
  }
  std::size_t k_index(std::size_t head, std::size_t token, std::size_t channel) const {
    return (head * 6 + token) * 5 + channel;
  }
  std::size_t v_index(std::size_t head, std::size_t token, std::size_t channel) const {
    return (head * 6 + token) * 3 + channel;
  }

  AttentionLayer layer_;
};

TEST_P(ValueCheckTest, FiniteValues) {
  set(layer_.k, k_index(1, 3, 2), -7);
  set(layer_.k, k_index(0, 5, 4), 12);
  const LayerCheck check = check_values(layer_);
  EXPECT_EQ(check.layer, 9);
  EXPECT_TRUE(check.finite());
  EXPECT_EQ(first_bad_value(check), "");
  EXPECT_EQ(check.k.minimum, -7);
  EXPECT_EQ(check.k.maximum, 12);
  EXPECT_EQ(check.q.minimum, 0.5f);
  EXPECT_EQ(check.v.maximum, 0.5f);
  EXPECT_THAT(check.k.findings, IsEmpty());
}

TEST_P(ValueCheckTest, NegativeValuesOnly) {
  for (std::size_t i = 0; i < 2 * 6 * 3; ++i) set(layer_.v, i, -2 - static_cast<float>(i % 4));
  const LayerCheck check = check_values(layer_);
  EXPECT_EQ(check.v.minimum, -5);
  EXPECT_EQ(check.v.maximum, -2);
}

TEST_P(ValueCheckTest, NanAndInfinitiesByHead) {
  set(layer_.k, k_index(1, 4, 0), kNan);
  set(layer_.k, k_index(1, 2, 3), -kInfinity);
  set(layer_.k, k_index(1, 2, 4), kInfinity);
  set(layer_.k, k_index(1, 2, 0), 3);  // finite, in a row with bad ones
  set(layer_.v, v_index(0, 0, 2), -kNan);
  const LayerCheck check = check_values(layer_);
  EXPECT_FALSE(check.finite());
  EXPECT_THAT(check.k.findings, ElementsAre(HeadFinding{.head = 1, .num_nan = 1, .num_infinite = 2, .first_token = 2}));
  EXPECT_THAT(check.v.findings, ElementsAre(HeadFinding{.head = 0, .num_nan = 1, .first_token = 0}));
  EXPECT_EQ(check.k.minimum, 0.5f);
  EXPECT_EQ(check.k.maximum, 3);
  EXPECT_EQ(first_bad_value(check), "layer 9, k, head 1: NaN and infinity, first at token 2");
}

TEST_P(ValueCheckTest, ValuesThatAreNotInTheKeys) {
  for (std::size_t head = 0; head < 2; ++head)
    for (std::size_t token = 0; token < 6; ++token)
      for (std::size_t channel = 0; channel < 5; ++channel) {
        const auto value = static_cast<float>(100 * head + 10 * token + channel);
        set(layer_.k, k_index(head, token, channel), value);
        if (channel < 3) set(layer_.v, v_index(head, token, channel), value);
      }
  layer_.shape.values_in_keys = 1;
  EXPECT_TRUE(check_values(layer_).sound());
  set(layer_.v, v_index(1, 4, 2), 7);
  const LayerCheck check = check_values(layer_);
  EXPECT_TRUE(check.finite());
  EXPECT_FALSE(check.sound());
  EXPECT_EQ(other_value_text(check),
            "layer 9, v, head 1: is not the first channels of k (values_in_keys), first at token 4");
  layer_.shape.values_in_keys = 0;
  EXPECT_TRUE(check_values(layer_).sound());
}

TEST_P(ValueCheckTest, QueriesAreNamedByTheirPosition) {
  set(layer_.q, q_index(1, 3, 4), kInfinity);
  EXPECT_EQ(first_bad_value(check_values(layer_)), "layer 9, q, head 3: infinity, first at token 5");
}

TEST_P(ValueCheckTest, HeadsThatAreAllZero) {
  for (std::size_t token = 0; token < 6; ++token) {
    for (std::size_t channel = 0; channel < 3; ++channel)
      set(layer_.v, v_index(1, token, channel), channel == 1 ? -0.0f : 0.0f);
  }
  for (std::size_t channel = 0; channel < 5; ++channel)
    set(layer_.q, q_index(0, 2, channel), 0);  // only one of two queries
  const LayerCheck check = check_values(layer_);
  EXPECT_TRUE(check.finite());
  EXPECT_THAT(check.v.findings, ElementsAre(HeadFinding{.head = 1, .all_zero = true}));
  EXPECT_THAT(check.q.findings, IsEmpty());
}

// 2^20 heads of zeros take little in a compressed file.
TEST_P(ValueCheckTest, OfManyHeadsTheWorstAreKept) {
  constexpr std::size_t kHeads = TensorCheck::kMaxFindings + 500;
  layer_.shape.num_query_heads = static_cast<int>(kHeads);
  layer_.query_positions = {5};
  layer_.q.resize(kHeads * 5 * size_of(GetParam()));
  for (std::size_t i = 0; i < kHeads * 5; ++i) set(layer_.q, i, 0);
  set(layer_.q, (kHeads - 1) * 5, kNan);
  const TensorCheck check = check_values(layer_).q;
  ASSERT_EQ(check.findings.size(), TensorCheck::kMaxFindings);
  EXPECT_EQ(check.num_left_out, 500u);
  EXPECT_EQ(check.findings.front().head, 0);
  EXPECT_EQ(check.findings.back().head, static_cast<int>(kHeads) - 1);
  EXPECT_EQ(check.findings.back().num_nan, 1);
}

TEST_P(ValueCheckTest, NothingFinite) {
  for (std::size_t i = 0; i < 2 * 6 * 5; ++i) set(layer_.k, i, kNan);
  const LayerCheck check = check_values(layer_);
  EXPECT_TRUE(std::isnan(check.k.minimum));
  EXPECT_TRUE(std::isnan(check.k.maximum));
  EXPECT_EQ(check.k.findings.size(), 2u);
}

TEST_P(ValueCheckTest, LargestAndSmallestNumbersAreFinite) {
  const float largest = GetParam() == ElementType::float16 ? 65504.0f : 0x1.FEp127f;
  const float smallest = GetParam() == ElementType::float16 ? 0x1p-24f : 0x1p-133f;
  set(layer_.k, 0, -largest);
  set(layer_.k, 1, largest);
  for (std::size_t i = 0; i < 2 * 6 * 3; ++i) set(layer_.v, i, 0);
  set(layer_.v, v_index(0, 3, 1), smallest);
  const LayerCheck check = check_values(layer_);
  EXPECT_TRUE(check.finite());
  EXPECT_EQ(check.k.minimum, -largest);
  EXPECT_EQ(check.k.maximum, largest);
  EXPECT_EQ(check.v.maximum, smallest);
  EXPECT_THAT(check.v.findings, ElementsAre(HeadFinding{.head = 1, .all_zero = true})) << "a subnormal is not zero";
}

INSTANTIATE_TEST_SUITE_P(ElementTypes, ValueCheckTest,
                         ::testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         [](const auto& info) { return std::string(name_of(info.param)); });

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
