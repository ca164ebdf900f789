// Scores of 16-bit keys and maxima of their sub-blocks.
#include <gtest/gtest.h>

#include "kernels/decode/baselines/key_scan_cuda.h"
#include "tests/kernels/decode/baselines/exact_data.h"

namespace attest::test {
namespace {

class KeyScan : public OnGpuWith<DecodeCase> {};

struct Found {
  std::vector<float> scores, maxima, head_maxima;
};

/// Bits, so that unwritten elements (NaN) compare, too.
std::vector<std::uint32_t> bits_of(const Found& found) {
  std::vector<std::uint32_t> bits;
  for (const auto* values : {&found.scores, &found.maxima, &found.head_maxima})
    for (float x : *values) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

Found scan(const ExactData& data, int sub_block, Gpu& gpu) {
  const DeviceArena::Scope scope(gpu.arena);
  const ExactCache& cache = data.cache;
  const auto pairs = static_cast<std::size_t>(cache.pairs()), group = static_cast<std::size_t>(cache.group);
  const std::size_t maxima = pairs * cache.max_sub_blocks(sub_block), scores = pairs * cache.max_tokens * group;
  const KeyScanCall call{data.device_q, gpu.arena.take<float>(scores), gpu.arena.take<float>(maxima + 1),
                         gpu.arena.take<float>(maxima * group + 1)};
  ATTEST_CUDA(cudaMemsetAsync(call.scores, 0xFF, scores * 4, gpu.stream));
  ATTEST_CUDA(cudaMemsetAsync(call.maxima, 0xFF, maxima * 4, gpu.stream));
  ATTEST_CUDA(cudaMemsetAsync(call.head_maxima, 0xFF, maxima * group * 4, gpu.stream));
  replay(gpu, [&] { cuda_key_scan(cache, sub_block, call, gpu.stream); });
  return {gpu.download(call.scores, scores), gpu.download(call.maxima, maxima),
          gpu.download(call.head_maxima, maxima * group)};
}

TEST_P(KeyScan, ScoresEveryToken) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  const ExactCache& cache = data.cache;
  const Found found = scan(data, 128, gpu);
  for (int pair = 0; pair < cache.pairs(); ++pair)
    for (int head = 0; head < cache.group; ++head) {
      const std::vector<double> expected = data.scores(pair, head), magnitudes = data.magnitudes(pair, head);
      for (int token = 0; token < cache.max_tokens; ++token) {
        const float score = found.scores[(pair * cache.max_tokens + token) * cache.group + head];
        if (token >= data.length(pair)) {
          ASSERT_TRUE(std::isnan(score)) << "unwritten beyond the sequence";
          continue;
        }
        ASSERT_LE(std::fabs(score - expected[token]), kScoreError * magnitudes[token])
            << "pair " << pair << ", head " << head << ", token " << token << " of " << data.length(pair);
      }
    }
}

TEST_P(KeyScan, MaximaAreThoseOfItsScores) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  const ExactCache& cache = data.cache;
  for (int sub_block : {16, 32, 64, 128}) {
    const Found found = scan(data, sub_block, gpu);
    for (int pair = 0; pair < cache.pairs(); ++pair)
      for (int place = 0; place < cache.max_sub_blocks(sub_block); ++place) {
        const auto at = static_cast<std::size_t>(pair) * cache.max_sub_blocks(sub_block) + place;
        const bool exists = place < data.full_blocks(pair) * (128 / sub_block);
        float maximum = -std::numeric_limits<float>::infinity();
        for (int head = 0; head < cache.group; ++head) {
          float of_head = -std::numeric_limits<float>::infinity();
          for (int token = place * sub_block; exists && token < (place + 1) * sub_block; ++token)
            of_head = std::max(of_head, found.scores[(pair * cache.max_tokens + token) * cache.group + head]);
          maximum = std::max(maximum, of_head);
          const float own = found.head_maxima[at * cache.group + head];
          if (exists)
            ASSERT_EQ(own, of_head) << sub_block << ", pair " << pair << ", sub-block " << place << ", head " << head;
          else
            ASSERT_TRUE(std::isnan(own)) << "unwritten";
        }
        if (exists)
          ASSERT_EQ(found.maxima[at], maximum) << sub_block << ", pair " << pair << ", sub-block " << place;
        else
          ASSERT_TRUE(std::isnan(found.maxima[at])) << "unwritten";
      }
  }
}

TEST_P(KeyScan, RepeatsBitForBit) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  EXPECT_EQ(bits_of(scan(data, 16, gpu)), bits_of(scan(data, 16, gpu)));
}

TEST_P(KeyScan, LeavesOutWhatIsNull) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  const std::size_t count = static_cast<std::size_t>(data.cache.pairs()) * data.cache.max_sub_blocks(128);
  auto* maxima = gpu.arena.take<float>(count + 1);
  ATTEST_CUDA(cudaMemsetAsync(maxima, 0xFF, (count + 1) * 4, gpu.stream));
  cuda_key_scan(data.cache, 128, {.q = data.device_q, .maxima = maxima}, gpu.stream);
  const std::vector<float> found = gpu.download(maxima, count), expected = scan(data, 128, gpu).maxima;
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(expected[i]));
}

INSTANTIATE_TEST_SUITE_P(Cases, KeyScan, testing::ValuesIn(decode_cases()), name_of_decode_case);

}  // namespace
}  // namespace attest::test
