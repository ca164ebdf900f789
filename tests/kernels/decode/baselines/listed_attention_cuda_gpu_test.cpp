// Attention over chosen sub-blocks and the tail.
#include <gtest/gtest.h>

#include "kernels/decode/baselines/listed_attention_cuda.h"
#include "tests/kernels/decode/baselines/exact_data.h"

namespace attest::test {
namespace {

/// Mask [pairs, max_sub_blocks]. Pairs keep nothing, few, most or all sub-blocks; beyond a sequence's end all bytes are
/// set.
std::vector<std::uint8_t> make_mask(const ExactData& data, int sub_block) {
  Random random(7);
  std::vector<std::uint8_t> mask;
  for (int pair = 0; pair < data.cache.pairs(); ++pair)
    for (int place = 0; place < data.cache.max_sub_blocks(sub_block); ++place) {
      const bool exists = place < data.full_blocks(pair) * (128 / sub_block);
      const double share[] = {0, 0.1, 0.8, 1};
      mask.push_back(!exists || random.uniform() < share[(pair + pair / 4) % 4] ? 1 + random.below(255) : 0);
    }
  return mask;
}

Kept kept_tokens(const ExactData& data, int pair, const std::vector<std::uint8_t>& mask, int sub_block) {
  Kept kept;
  for (int token = 0; token < data.length(pair); ++token) {
    const auto at = static_cast<std::size_t>(pair) * data.cache.max_sub_blocks(sub_block) + token / sub_block;
    kept.push_back(token >= data.full_blocks(pair) * 128 || mask[at] != 0 ? 1 : 0);
  }
  return kept;
}

FoundAttention attend(const ExactData& data, int sub_block, const std::vector<std::uint8_t>& mask, bool with_sinks,
                      Gpu& gpu) {
  const DeviceArena::Scope scope(gpu.arena);
  const auto rows = static_cast<std::size_t>(data.cache.pairs() * data.cache.group);
  auto* out = gpu.arena.take<std::uint16_t>(rows * data.cache.head_dim);
  auto* lse = gpu.arena.take<float>(rows);
  const std::size_t bytes = listed_attention_scratch(data.cache, sub_block);
  auto* scratch = gpu.arena.take<std::byte>(bytes);
  ATTEST_CUDA(cudaMemsetAsync(scratch, 0xFF, bytes, gpu.stream));
  const ListedAttentionCall call{data.device_q, gpu.upload(mask), with_sinks ? gpu.upload(data.sinks) : nullptr, out,
                                 lse,           scratch};
  replay(gpu, [&] { cuda_listed_attention(data.cache, sub_block, call, gpu.stream); });
  return {gpu.download(out, rows * data.cache.head_dim), gpu.download(lse, rows)};
}

class ListedAttention : public OnGpuWith<DecodeCase> {};

TEST_P(ListedAttention, IsSoftmaxOverWhatIsKept) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  for (int sub_block : {16, 32, 64, 128})
    for (bool with_sinks : {false, true}) {
      const std::vector<std::uint8_t> mask = make_mask(data, sub_block);
      const FoundAttention found = attend(data, sub_block, mask, with_sinks, gpu);
      int dropped = 0;
      for (int pair = 0; pair < data.cache.pairs(); ++pair) {
        const Kept kept = kept_tokens(data, pair, mask, sub_block);
        dropped += static_cast<int>(std::count(kept.begin(), kept.end(), 0));
        expect_attention(data, pair, kept, with_sinks ? data.sinks.data() : nullptr, found,
                         rounded_weights(data.cache.element_type));
        if (HasFatalFailure()) FAIL() << "sub_block " << sub_block << (with_sinks ? ", sinks" : "");
      }
      EXPECT_GT(dropped, 0);  // the case is not trivial
    }
}

TEST_P(ListedAttention, RepeatsBitForBit) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  const std::vector<std::uint8_t> mask = make_mask(data, 16);
  EXPECT_EQ(attend(data, 16, mask, true, gpu), attend(data, 16, mask, true, gpu));
}

INSTANTIATE_TEST_SUITE_P(Cases, ListedAttention, testing::ValuesIn(decode_cases()), name_of_decode_case);

}  // namespace
}  // namespace attest::test
