// KIVI's 2-bit keys: codes bit for bit, and scores of every token.
#include <gtest/gtest.h>

#include "kernels/decode/baselines/kivi_scan_cuda.h"
#include "kernels/quantize/kivi_groups.h"
#include "tests/kernels/decode/baselines/exact_data.h"

namespace attest::test {
namespace {

/// Of a score, relative to scale * sum |q_d| (code s + |lowest|): q s is the sum of two bfloat16 parts.
constexpr double kFoldedError = 0x1p-16;

/// The code of one element, from the layout of KiviKeysView.
int code_of(const std::vector<std::uint32_t>& codes, std::size_t group, int dim, int token, int channel) {
  const int lane = token % 8 * 4 + channel % 32 / 8;
  const int k = channel / 32 * 2 + token / 16, word = k / 4 * 128 + lane * 4 + k % 4;
  const int bit = 2 * (token % 16 / 8 * 4 + channel % 8 / 2) + channel % 2 * 16;
  return static_cast<int>(codes[group * 2 * static_cast<std::size_t>(dim) + word] >> bit & 3);
}

float float_of(ElementType type, std::uint16_t bits) {
  return type == ElementType::float16 ? float16_to_float(bits) : bfloat16_to_float(bits);
}

/// Keys as KIVI reads them, by the function of the CPU.
HostRows dequantised(const ExactData& data) {
  HostRows out = data.k;
  const KiviQuantizer quantizer{2, kKiviGroup, QuantArithmetic::dump, data.cache.element_type};
  for (int pair = 0; pair < data.cache.pairs(); ++pair)
    kivi_quantize_per_channel(quantizer, data.k.row(pair, 0), (data.length(pair) - 1) / 128 * 128, data.cache.head_dim,
                              out.values.data() + pair * data.cache.stride * data.cache.head_dim);
  return out;
}

class KiviScan : public OnGpuWith<DecodeCase> {};

TEST_P(KiviScan, CodesConformBitForBit) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  const int dim = data.cache.head_dim;
  KiviKeys2Bit keys(data.cache);
  keys.build(data.cache, gpu.stream);
  const auto groups = static_cast<std::size_t>(data.cache.pairs()) * keys.view().max_groups;
  const auto codes = gpu.download(keys.view().codes, groups * 2 * dim);
  const auto scales = gpu.download(keys.view().scales, groups * dim),
             lowest = gpu.download(keys.view().lowest, groups * dim);
  const HostRows expected = dequantised(data);
  int seen[4] = {};
  for (int pair = 0; pair < data.cache.pairs(); ++pair)
    for (int token = 0; token < (data.length(pair) - 1) / 128 * 128; ++token)
      for (int d = 0; d < dim; ++d) {
        const auto group = static_cast<std::size_t>(pair) * keys.view().max_groups + token / kKiviGroup;
        const int code = code_of(codes, group, dim, token % kKiviGroup, d);
        const double scale = float_of(GetParam().type, scales[group * dim + d]),
                     low = float_of(GetParam().type, lowest[group * dim + d]);
        ASSERT_EQ(f32(f32(code * scale) + low), expected.row(pair, token)[d])
            << "pair " << pair << ", token " << token << ", channel " << d;
        ++seen[code];
      }
  for (int count : seen) EXPECT_GT(count, 1000);
}

std::vector<float> scan(const ExactData& data, const KiviKeys2Bit& keys, Gpu& gpu) {
  const DeviceArena::Scope scope(gpu.arena);
  const auto count = static_cast<std::size_t>(data.cache.pairs() * data.cache.max_tokens * data.cache.group);
  auto* scores = gpu.arena.take<float>(count);
  ATTEST_CUDA(cudaMemsetAsync(scores, 0xFF, count * 4, gpu.stream));
  replay(gpu, [&] { cuda_kivi_scan(data.cache, keys.view(), data.device_q, scores, gpu.stream); });
  return gpu.download(scores, count);
}

TEST_P(KiviScan, ScoresEveryToken) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  const ExactCache& cache = data.cache;
  KiviKeys2Bit keys(cache);
  keys.build(cache, gpu.stream);
  const std::vector<float> found = scan(data, keys, gpu);
  const HostRows read = dequantised(data);
  HostRows parts = read;  // |x^ - lowest| + |lowest| of every element
  for (int pair = 0; pair < cache.pairs(); ++pair)
    for (int token = 0; token < (data.length(pair) - 1) / 128 * 128; ++token)
      for (int d = 0; d < cache.head_dim; ++d) {
        float lowest = std::numeric_limits<float>::infinity();
        for (int t = token / 32 * 32; t < token / 32 * 32 + 32; ++t) lowest = std::min(lowest, data.k.row(pair, t)[d]);
        parts.values[(pair * cache.stride + token) * cache.head_dim + d] =
            std::fabs(read.row(pair, token)[d] - lowest) + std::fabs(lowest);
      }
  for (int pair = 0; pair < cache.pairs(); ++pair)
    for (int head = 0; head < cache.group; ++head) {
      const std::vector<double> expected = data.products(pair, head, read, false),
                                magnitudes = data.products(pair, head, parts, true);
      for (int token = 0; token < cache.max_tokens; ++token) {
        const float score = found[(pair * cache.max_tokens + token) * cache.group + head];
        if (token >= data.length(pair)) {
          ASSERT_TRUE(std::isnan(score)) << "unwritten beyond the sequence";
          continue;
        }
        ASSERT_LE(std::fabs(score - expected[token]), (kFoldedError + kScoreError) * magnitudes[token])
            << "pair " << pair << ", head " << head << ", token " << token << " of " << data.length(pair);
      }
    }
  const std::vector<float> again = scan(data, keys, gpu);
  EXPECT_EQ(std::memcmp(found.data(), again.data(), found.size() * sizeof(float)), 0);
}

TEST_P(KiviScan, CodesOfAnotherCacheAreRefused) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  ExactCache other = data.cache;
  ++other.batch;
  KiviKeys2Bit keys(other);
  EXPECT_THROW(keys.build(data.cache, gpu.stream), InputError);
  EXPECT_THROW(cuda_kivi_scan(data.cache, keys.view(), data.device_q, nullptr, gpu.stream), InputError);
}

INSTANTIATE_TEST_SUITE_P(Cases, KiviScan, testing::ValuesIn(decode_cases()), name_of_decode_case);

}  // namespace
}  // namespace attest::test
