// Exact attention over all tokens, and what it refuses.
#include <gtest/gtest.h>

#include "kernels/decode/baselines/dense_attention_cuda.h"
#include "tests/kernels/decode/baselines/exact_data.h"

namespace attest::test {
namespace {

struct FoundDense {
  FoundAttention attention;
  std::vector<std::int64_t> tokens;
  bool refused;
  friend bool operator==(const FoundDense&, const FoundDense&) = default;
};

FoundDense attend(const ExactCache& cache, const void* q, const float* sinks, Gpu& gpu, float largest_score = 1e6f) {
  const DeviceArena::Scope scope(gpu.arena);
  const auto pairs = static_cast<std::size_t>(cache.pairs()), rows = pairs * cache.group;
  auto* out = gpu.arena.take<std::uint16_t>(rows * cache.head_dim);
  auto* lse = gpu.arena.take<float>(rows);
  auto* tokens = gpu.arena.take<std::int64_t>(pairs);
  int* refused = gpu.upload(std::vector<int>{0});
  const std::size_t bytes = dense_attention_scratch(cache);
  auto* scratch = gpu.arena.take<std::byte>(bytes);
  ATTEST_CUDA(cudaMemsetAsync(scratch, 0xFF, bytes, gpu.stream));
  const DenseAttentionCall call{q, sinks, largest_score, out, lse, tokens, refused, scratch};
  replay(gpu, [&] { cuda_dense_attention(cache, call, gpu.stream); });
  return {{gpu.download(out, rows * cache.head_dim), gpu.download(lse, rows)},
          gpu.download(tokens, pairs),
          gpu.download(refused, 1)[0] != 0};
}

/// Weights are the sum of two 16-bit numbers.
WeightError split_weights(ElementType type) { return {type == ElementType::float16 ? 0x1p-21 : 0x1p-16, 1e-5}; }

class DenseAttention : public OnGpuWith<DecodeCase> {};

TEST_P(DenseAttention, IsSoftmaxOverAllTokens) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  for (bool with_sinks : {false, true}) {
    const FoundDense found = attend(data.cache, data.device_q, with_sinks ? gpu.upload(data.sinks) : nullptr, gpu);
    EXPECT_FALSE(found.refused);
    for (int pair = 0; pair < data.cache.pairs(); ++pair) {
      EXPECT_EQ(found.tokens[static_cast<std::size_t>(pair)], data.length(pair));
      const Kept all(static_cast<std::size_t>(data.length(pair)), 1);
      expect_attention(data, pair, all, with_sinks ? data.sinks.data() : nullptr, found.attention,
                       split_weights(data.cache.element_type));
      if (HasFatalFailure()) FAIL() << (with_sinks ? "sinks" : "no sinks");
    }
  }
}

TEST_P(DenseAttention, RepeatsBitForBit) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  const float* sinks = gpu.upload(data.sinks);
  EXPECT_EQ(attend(data.cache, data.device_q, sinks, gpu), attend(data.cache, data.device_q, sinks, gpu));
}

INSTANTIATE_TEST_SUITE_P(Cases, DenseAttention, testing::ValuesIn(decode_cases()), name_of_decode_case);

class DenseAttentionLengths : public OnGpu {};
class DenseAttentionRefusal : public OnGpu {};

TEST_F(DenseAttentionLengths, WithoutLengthsAllSequencesAreAsLong) {
  Gpu gpu;
  const ExactData data({ElementType::bfloat16, 64, 4, {300, 300, 300}}, gpu);
  ExactCache same = data.cache;
  same.max_tokens = 300;
  same.lengths = nullptr;
  EXPECT_EQ(attend(same, data.device_q, nullptr, gpu), attend(data.cache, data.device_q, nullptr, gpu));
}

/// One number of the keys or the values of pair 3, token 130, is replaced.
FoundDense attend_with(std::uint16_t number, bool in_keys, Gpu& gpu) {
  const ExactData data({ElementType::bfloat16, 64, 4, {20, 200}}, gpu);
  const std::int64_t at = (3 * data.cache.stride + 130) * 64 + 5;
  auto* to = static_cast<std::uint16_t*>(const_cast<void*>(in_keys ? data.cache.keys : data.cache.values)) + at;
  ATTEST_CUDA(cudaMemcpy(to, &number, sizeof number, cudaMemcpyHostToDevice));
  return attend(data.cache, data.device_q, nullptr, gpu);
}

TEST_F(DenseAttentionRefusal, ScoresAndOutputsThatAreTooLarge) {
  Gpu gpu;
  const std::uint16_t one = 0x3F80, infinity = 0x7F80, nan = 0x7FC0, huge = 0x7E00;  // 2^125
  EXPECT_FALSE(attend_with(one, true, gpu).refused);
  EXPECT_FALSE(attend_with(one, false, gpu).refused);
  for (std::uint16_t number : {infinity, nan, huge}) EXPECT_TRUE(attend_with(number, true, gpu).refused) << number;
  for (std::uint16_t number : {infinity, nan}) EXPECT_TRUE(attend_with(number, false, gpu).refused) << number;
}

TEST_F(DenseAttentionRefusal, TheLimitIsTheCallers) {
  Gpu gpu;
  const ExactData data({ElementType::float16, 128, 4, {1000}}, gpu);
  double largest = 0;
  for (int pair = 0; pair < data.cache.pairs(); ++pair)
    for (int head = 0; head < 4; ++head)
      for (double score : data.scores(pair, head)) largest = std::max(largest, std::fabs(score));
  EXPECT_FALSE(attend(data.cache, data.device_q, nullptr, gpu, static_cast<float>(1.001 * largest)).refused);
  EXPECT_TRUE(attend(data.cache, data.device_q, nullptr, gpu, static_cast<float>(0.999 * largest)).refused);
}

}  // namespace
}  // namespace attest::test
