// What the kernels that read a plain 16-bit cache support.
#include "kernels/decode/baselines/exact_cache_cuda.h"

#include "dumps/base/error.h"

namespace attest {

std::string fault_of_exact_cache(const ExactCache& cache, int sub_block) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const auto fault = [](const std::string& expected, const std::string& found) {
    return "expected " + expected + ", found " + found;
  };
  if (cache.element_type == ElementType::float32) return fault("float16 or bfloat16", "float32");
  if (cache.head_dim != 64 && cache.head_dim != 128)
    return fault("head_dim = value_dim = 64 or 128", text(cache.head_dim));
  if (cache.group < 1 || cache.group > kExactMaxGroup)
    return fault("1 to " + text(kExactMaxGroup) + " query heads per KV head", text(cache.group));
  if (cache.batch < 1 || cache.num_kv_heads < 1 || cache.num_kv_heads > kExactMaxPairs / cache.batch)
    return fault("1 to " + text(kExactMaxPairs) + " pairs of sequence and KV head",
                 text(cache.batch) + " x " + text(cache.num_kv_heads));
  if (cache.max_tokens < 1 || cache.max_tokens > kExactMaxTokens)
    return fault("1 to " + text(kExactMaxTokens) + " tokens", text(cache.max_tokens));
  if (cache.stride < cache.max_tokens)
    return fault("a stride of at least " + text(cache.max_tokens) + " tokens", text(cache.stride));
  if (sub_block != 16 && sub_block != 32 && sub_block != 64 && sub_block != 128)
    return fault("sub-blocks of 16, 32, 64 or 128 tokens", text(sub_block));
  return {};
}

void check_exact_cache(const ExactCache& cache, int sub_block) {
  if (const std::string fault = fault_of_exact_cache(cache, sub_block); !fault.empty())
    throw InputError("decode kernel: " + fault);
}

}  // namespace attest
