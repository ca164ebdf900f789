// skip_softmax: which tiles are skipped, and attention over the others.
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "kernels/decode/baselines/skip_softmax_cuda.h"
#include "tests/kernels/decode/baselines/exact_data.h"

namespace attest::test {
namespace {

constexpr int kTile = 128;

struct Found {
  FoundAttention attention;
  std::vector<int> kept;
  friend bool operator==(const Found&, const Found&) = default;
};

Found attend(const ExactData& data, int splits, const std::vector<float>& delta, bool with_sinks, Gpu& gpu) {
  const DeviceArena::Scope scope(gpu.arena);
  const auto pairs = static_cast<std::size_t>(data.cache.pairs()), rows = pairs * data.cache.group;
  auto* out = gpu.arena.take<std::uint16_t>(rows * data.cache.head_dim);
  auto* lse = gpu.arena.take<float>(rows);
  auto* kept = gpu.arena.take<int>(pairs);
  const std::size_t bytes = skip_softmax_scratch(data.cache, splits);
  auto* scratch = gpu.arena.take<std::byte>(bytes);
  ATTEST_CUDA(cudaMemsetAsync(scratch, 0xFF, bytes, gpu.stream));
  const SkipSoftmaxCall call{
      data.device_q, gpu.upload(delta), with_sinks ? gpu.upload(data.sinks) : nullptr, out, lse, kept, scratch};
  replay(gpu, [&] { cuda_skip_softmax(data.cache, splits, call, gpu.stream); });
  return {{gpu.download(out, rows * data.cache.head_dim), gpu.download(lse, rows)}, gpu.download(kept, pairs)};
}

/// Tiles of a pair that are not skipped, by the definition; `doubtful` counts those too close to call in float32.
Kept kept_tiles(const ExactData& data, int pair, int splits, double delta, int& doubtful) {
  constexpr double kDoubt = 2e-4;  // above kScoreError times the magnitudes of two scores
  const int length = data.length(pair), tiles = (length + kTile - 1) / kTile, step = std::min(tiles, splits);
  std::vector<double> margins(static_cast<std::size_t>(tiles), -std::numeric_limits<double>::infinity());
  for (int head = 0; head < data.cache.group; ++head) {
    const std::vector<double> scores = data.scores(pair, head);
    std::vector<double> maxima;
    for (int tile = 0; tile < tiles; ++tile) {
      const int end = std::min(length, (tile + 1) * kTile);
      maxima.push_back(*std::max_element(scores.begin() + tile * kTile, scores.begin() + end));
      double running = -std::numeric_limits<double>::infinity();
      for (int earlier = tile % step; earlier < tile; earlier += step)
        running = std::max(running, maxima[static_cast<std::size_t>(earlier)]);
      margins[tile] = std::max(margins[tile], maxima[tile] - running);
    }
  }
  Kept kept;
  for (double margin : margins) {
    kept.push_back(margin < -delta ? 0 : 1);
    if (std::fabs(margin + delta) <= kDoubt) ++doubtful;
  }
  return kept;
}

class SkipSoftmaxCuda : public OnGpuWith<DecodeCase> {};

TEST_P(SkipSoftmaxCuda, SkipsTilesFarBelowTheRunningMaximum) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  int skipped = 0, tiles = 0, doubtful = 0;
  for (int splits : {1, 3, skip_softmax_splits(data.cache)})
    for (float delta : {0.0f, 1.0f, 4.0f, std::numeric_limits<float>::infinity()}) {
      const bool with_sinks = splits == 3;
      const std::vector<float> deltas = {delta, delta + 0.5f};
      const Found found = attend(data, splits, deltas, with_sinks, gpu);
      for (int pair = 0; pair < data.cache.pairs(); ++pair) {
        int doubts = 0;
        const Kept kept = kept_tiles(data, pair, splits, deltas[pair % ExactData::kKvHeads], doubts);
        const auto number = static_cast<int>(std::count(kept.begin(), kept.end(), 1));
        skipped += static_cast<int>(kept.size()) - number;
        tiles += static_cast<int>(kept.size());
        doubtful += doubts;
        ASSERT_LE(std::abs(found.kept[pair] - number), doubts)
            << "splits " << splits << ", delta " << delta << ", pair " << pair << ", length " << data.length(pair);
        if (doubts > 0) continue;
        Kept tokens;
        for (int token = 0; token < data.length(pair); ++token) tokens.push_back(kept[token / kTile]);
        expect_attention(data, pair, tokens, with_sinks ? data.sinks.data() : nullptr, found.attention,
                         rounded_weights(data.cache.element_type));
        if (HasFatalFailure()) FAIL() << "splits " << splits << ", delta " << delta;
      }
    }
  EXPECT_GT(skipped, 0);
  EXPECT_LE(doubtful * 100, tiles);
}

TEST_P(SkipSoftmaxCuda, RepeatsBitForBit) {
  Gpu gpu;
  const ExactData data(GetParam(), gpu);
  EXPECT_EQ(attend(data, 2, {1, 1}, true, gpu), attend(data, 2, {1, 1}, true, gpu));
}

INSTANTIATE_TEST_SUITE_P(Cases, SkipSoftmaxCuda, testing::ValuesIn(decode_cases()), name_of_decode_case);

TEST(SkipSoftmaxSplits, AreChecked) {
  const ExactCache on{.max_tokens = 100, .stride = 100};
  EXPECT_THROW(skip_softmax_scratch(on, 0), InputError);
}

}  // namespace
}  // namespace attest::test
