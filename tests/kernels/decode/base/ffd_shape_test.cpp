// Shapes and options that a decode refuses.
#include "kernels/decode/base/ffd_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using testing::HasSubstr;

FfdCacheShape good() { return {.batch = 2, .num_kv_heads = 8, .group = 4, .max_tokens = 1000}; }

TEST(FfdShape, AcceptsWhatADecodeSupports) {
  EXPECT_NO_THROW(check_shape(good()));
  FfdCacheShape wide = good();
  wide.head_dim = wide.value_dim = 576, wide.group = 16, wide.bits = 8;
  EXPECT_NO_THROW(check_shape(wide));
  EXPECT_FALSE(fits_fragments(wide));
  EXPECT_TRUE(fits_fragments(good()));
}

TEST(FfdShape, OnlySomeShapesFitTensorCores) {
  FfdCacheShape shape = good();
  shape.bits = 4;
  EXPECT_TRUE(fits_fragments(shape));
  shape.group = 5;
  EXPECT_FALSE(fits_fragments(shape));
  shape.bits = 2;
  EXPECT_TRUE(fits_fragments(shape));
  shape.value_dim = 64;
  EXPECT_FALSE(fits_fragments(shape));
  shape.head_dim = 64;
  EXPECT_TRUE(fits_fragments(shape));
  shape.bits = 8, shape.group = 1;
  EXPECT_FALSE(fits_fragments(shape));
}

TEST(FfdShape, SaysWhatWasExpectedAndFound) {
  const auto refused = [](auto&& change) {
    FfdCacheShape shape = good();
    change(shape);
    return message_of<InputError>([&] { check_shape(shape); });
  };
  EXPECT_THAT(refused([](FfdCacheShape& s) { s.group = 17; }),
              HasSubstr("expected 1 to 16 query heads per KV head, found 17"));
  EXPECT_THAT(refused([](FfdCacheShape& s) { s.batch = 0; }),
              HasSubstr("at least one sequence and one KV head, found 0 and 8"));
  EXPECT_THAT(refused([](FfdCacheShape& s) { s.batch = 100000; }), HasSubstr("found 800000"));
  EXPECT_THAT(refused([](FfdCacheShape& s) { s.head_dim = 577; }), HasSubstr("found 577 and 128"));
  EXPECT_THAT(refused([](FfdCacheShape& s) { s.max_tokens = 0; }), HasSubstr("found 0"));
  EXPECT_THAT(refused([](FfdCacheShape& s) { s.element_type = ElementType::float32; }), HasSubstr("found float32"));
  EXPECT_THAT(refused([](FfdCacheShape& s) { s.bits = 3; }), HasSubstr("codes of 2, 4 or 8 bits, found 3"));
  EXPECT_THAT(refused([](FfdCacheShape& s) { s.layout = FfdCacheLayout::fragments, s.head_dim = 80; }),
              HasSubstr("found 80, 128"));
}

TEST(FfdShape, RefusesOptions) {
  const auto refused = [](const FfdDecodeOptions& options) {
    return message_of<InputError>([&] { check_options(options); });
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_THAT(refused({.scale = 0}), HasSubstr("a scale above 0, found 0"));
  EXPECT_THAT(refused({.scale = std::numeric_limits<float>::quiet_NaN()}), HasSubstr("a scale above 0, found nan"));
  EXPECT_THAT(refused({.sub_block = 48}), HasSubstr("sub-blocks of 16, 32, 64 or 128 tokens, found 48"));
  EXPECT_THAT(refused({.sink_blocks = 5}), HasSubstr("0 to 4 sink blocks, found 5"));
  EXPECT_THAT(refused({.local_blocks = -1}), HasSubstr("0 to 4 local blocks, found -1"));
  EXPECT_THAT(refused({.pseudo_max = FfdDecodePseudoMax::exact, .sink_blocks = 2}),
              HasSubstr("at most one sink block"));
  EXPECT_THAT(refused({.rule = FfdDecodeRule::topk, .keep_sub_blocks = 0}),
              HasSubstr("at least one sub-block, found 0"));
  EXPECT_THAT(message_of<InputError>([] { check_length(good(), 1, 900, 800); }),
              HasSubstr("sequence 1 to have 0 to 800 tokens, found 900"));
  EXPECT_THAT(message_of<InputError>([] { check_length(good(), 0, -5, 800); }),
              HasSubstr("sequence 0 to have 0 to 800 tokens, found -5"));
  EXPECT_EQ(message_of<InputError>([] { check_length(good(), 0, 1000, 1000); }), "");
}

}  // namespace
}  // namespace attest
