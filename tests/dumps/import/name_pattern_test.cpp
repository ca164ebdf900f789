#include "dumps/import/name_pattern.h"

#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

/// "sample:layer" of a match, "-" for what the pattern does not say, "no" for none.
std::string matched(const char* pattern, const char* name) {
  const auto match = NamePattern(pattern).match(name);
  if (!match) return "no";
  return match->sample.value_or("-") + ":" + (match->layer ? std::to_string(*match->layer) : "-");
}

TEST(NamePattern, holes_take_what_stands_in_them) {
  EXPECT_EQ(matched("q", "q"), "-:-");
  EXPECT_EQ(matched("layers.{l}.k", "layers.31.k"), "-:31");
  EXPECT_EQ(matched("{l}", "007"), "-:7");
  EXPECT_EQ(matched("{s}/layers/{l}/q", "niah_1/layers/4/q"), "niah_1:4");
  EXPECT_EQ(matched("{l}_{s}", "3_3_x"), "3_x:3");
  EXPECT_EQ(matched("{s}.{l}", "a.b.5"), "a.b:5");
  EXPECT_EQ(matched("{s}.x.{l}.x", "a.x.b.x.5.x"), "a.x.b:5");
}

TEST(NamePattern, a_name_fits_from_its_first_to_its_last_character) {
  EXPECT_EQ(matched("layers.{l}.k", "layers.1.k.bias"), "no");
  EXPECT_EQ(matched("layers.{l}.k", "model.layers.1.k"), "no");
  EXPECT_EQ(matched("layers.{l}.k", "layers..k"), "no");
  EXPECT_EQ(matched("layers.{l}.k", "layers.k"), "no");
  EXPECT_EQ(matched("a{l}a", "a"), "no");
  EXPECT_EQ(matched("q", ""), "no");
  EXPECT_EQ(matched("", "q"), "no");
}

TEST(NamePattern, a_layer_is_a_decimal_number_and_a_sample_has_no_slash) {
  for (const char* name : {"q.-1", "q.1x", "q.x", "q. 1", "q.+1", "q.99999999999", "q.1.0"})
    EXPECT_EQ(matched("q.{l}", name), "no") << name;
  EXPECT_EQ(matched("{s}", "a/b"), "no");
  EXPECT_EQ(matched("{s}.q", ".q"), "no");
}

TEST(NamePattern, a_long_name_is_no_work) {
  for (const std::size_t length : {4000, 50'000'000}) {
    const std::string name(length, 'a');
    EXPECT_EQ(matched("{s}a{l}", name.c_str()), "no");
  }
}

TEST(NamePattern, other_holes_are_refused) {
  const auto refusal = [](const char* pattern) { return message_of<UsageError>([&] { NamePattern{pattern}; }); };
  EXPECT_EQ(refusal("layers.{n}"), "name pattern 'layers.{n}': expected {l} (layer) or {s} (sample) after '{'");
  EXPECT_EQ(refusal("layers.{"), "name pattern 'layers.{': expected {l} (layer) or {s} (sample) after '{'");
  EXPECT_EQ(refusal("{l}.{l}"), "name pattern '{l}.{l}': expected {l} once");
  EXPECT_EQ(refusal("{s}{l}"), "name pattern '{s}{l}': expected text between its holes");
}

}  // namespace
}  // namespace attest
