// What the kernels on a plain 16-bit cache refuse.
#include <gtest/gtest.h>

#include <string>

#include "dumps/base/error.h"
#include "kernels/decode/baselines/exact_cache_cuda.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

std::string refusal(const ExactCache& cache, int sub_block = 128) {
  return message_of<InputError>([&] { check_exact_cache(cache, sub_block); });
}

TEST(ExactCacheCuda, ShapesAreChecked) {
  const ExactCache sound{.batch = 3, .num_kv_heads = 8, .group = 4, .max_tokens = 100, .stride = 100};
  for (int sub_block : {16, 32, 64, 128}) EXPECT_EQ(refusal(sound, sub_block), "");
  EXPECT_EQ(refusal(sound, 48), "decode kernel: expected sub-blocks of 16, 32, 64 or 128 tokens, found 48");
  const auto with = [&](auto&& change) {
    ExactCache cache = sound;
    change(cache);
    return refusal(cache);
  };
  EXPECT_EQ(with([](ExactCache& c) { c.head_dim = 64; }), "");
  EXPECT_EQ(with([](ExactCache& c) { c.head_dim = 96; }),
            "decode kernel: expected head_dim = value_dim = 64 or 128, found 96");
  EXPECT_EQ(with([](ExactCache& c) { c.group = 16; }), "");
  EXPECT_EQ(with([](ExactCache& c) { c.group = 17; }),
            "decode kernel: expected 1 to 16 query heads per KV head, found 17");
  EXPECT_EQ(with([](ExactCache& c) { c.element_type = ElementType::float32; }),
            "decode kernel: expected float16 or bfloat16, found float32");
  EXPECT_EQ(with([](ExactCache& c) { c.stride = 99; }),
            "decode kernel: expected a stride of at least 100 tokens, found 99");
  EXPECT_EQ(with([](ExactCache& c) { c.max_tokens = 0; }), "decode kernel: expected 1 to 16777216 tokens, found 0");
  EXPECT_EQ(with([](ExactCache& c) { c.batch = 10000; }),
            "decode kernel: expected 1 to 65535 pairs of sequence and KV head, found 10000 x 8");
}

TEST(ExactCacheCuda, CountsSubBlocksOfFullBlocks) {
  const ExactCache cache{.batch = 3, .num_kv_heads = 8, .max_tokens = 383, .stride = 400};
  EXPECT_EQ(cache.pairs(), 24);
  EXPECT_EQ(cache.max_blocks(), 2);
  EXPECT_EQ(cache.max_sub_blocks(128), 2);
  EXPECT_EQ(cache.max_sub_blocks(16), 16);
}

}  // namespace
}  // namespace attest::test
