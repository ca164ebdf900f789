// What the kernels that read a plain 16-bit cache support.
#include "kernels/decode/baselines/exact_cache_cuda.h"

#include <string>

#include "dumps/base/error.h"

namespace attest {

void check_exact_cache(const ExactCache& cache, int sub_block) {
  const auto require = [](bool holds, const std::string& expected, const std::string& found) {
    if (!holds) throw InputError("decode kernel: expected " + expected + ", found " + found);
  };
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  require(cache.element_type != ElementType::float32, "float16 or bfloat16", "float32");
  require(cache.head_dim == 64 || cache.head_dim == 128, "head_dim = value_dim = 64 or 128", text(cache.head_dim));
  require(cache.group >= 1 && cache.group <= kExactMaxGroup,
          "1 to " + text(kExactMaxGroup) + " query heads per KV head", text(cache.group));
  require(cache.batch >= 1 && cache.num_kv_heads >= 1 && cache.num_kv_heads <= kExactMaxPairs / cache.batch,
          "1 to " + text(kExactMaxPairs) + " pairs of sequence and KV head",
          text(cache.batch) + " x " + text(cache.num_kv_heads));
  require(cache.max_tokens >= 1 && cache.max_tokens <= kExactMaxTokens, "1 to " + text(kExactMaxTokens) + " tokens",
          text(cache.max_tokens));
  require(cache.stride >= cache.max_tokens, "a stride of at least " + text(cache.max_tokens) + " tokens",
          text(cache.stride));
  require(sub_block == 16 || sub_block == 32 || sub_block == 64 || sub_block == 128,
          "sub-blocks of 16, 32, 64 or 128 tokens", text(sub_block));
}

}  // namespace attest
