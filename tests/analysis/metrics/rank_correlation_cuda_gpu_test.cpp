// Ranks of exact scores and their correlation with estimates on the device, against plain ranks.
#include <gtest/gtest.h>

#include "analysis/metrics/rank_correlation.h"
#include "analysis/metrics/rank_correlation_cuda.h"
#include "analysis/metrics/rows_cuda.h"
#include "tests/analysis/plain_metrics.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/rank/value_rows.h"
#include "tests/kernels/selectors/device_chunk.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr double kRhoRounded = 0x1p-22;  // to float32

class RankCorrelationMetrics : public OnGpuWith<Case> {};

TEST_P(RankCorrelationMetrics, RanksAreOfAllVisibleTokens) {
  DeviceChunk on(GetParam());
  const CudaExactRanks ranks = cuda_exact_ranks(on.chunk);
  const DeviceRows& rows = on.chunk.rows;
  const Rows<int> centred =
      on.gpu.download_rows(RaggedRows<const int>{ranks.tokens, rows.visible, rows.num_rows, rows.max_length});
  const Rows<std::uint32_t> order = on.gpu.download_rows(
      RaggedRows<const std::uint32_t>{ranks.order.entries, rows.visible, rows.num_rows, rows.max_length});
  for (std::size_t r = 0; r < on.scores.size(); ++r) {
    EXPECT_TRUE(centred[r] == plain_centred_ranks(on.scores[r])) << "row " << r;
    std::vector<std::uint32_t> items = order[r];
    for (std::uint32_t& item : items) item &= ranks.order.mask;
    EXPECT_TRUE(items == plain_order(on.scores[r])) << "row " << r;
  }
}

/// One estimate per `width` tokens: a multiple of 1/8 near the score of the first token, so that some tie.
struct Entries {
  int width;
  Rows<float> entries, tokens;
  std::vector<int> covered;

  Entries(const DeviceChunk& on, int given, const RowCounts& count) : width(given), covered(count.host) {
    Random random(static_cast<std::uint64_t>(width));
    for (std::size_t r = 0; r < on.scores.size(); ++r) {
      entries.emplace_back(), tokens.emplace_back();
      for (int j = 0; j < static_cast<int>(on.scores[r].size()); ++j) {
        if (j % width == 0 && j < covered[r])
          entries.back().push_back(std::rint(8 * (on.scores[r][static_cast<std::size_t>(j)] + normal(random))) / 8);
        tokens.back().push_back(j < covered[r] ? entries.back().back() : 1e9f);  // tokens not covered must not count
      }
    }
  }
  float rho(const DeviceChunk& on, std::size_t r) const {
    const auto first = [count = covered[r]](const std::vector<float>& row) {
      return plain_centred_ranks(std::vector<float>(row.begin(), row.begin() + count));
    };
    return plain_rho(first(tokens[r]), first(on.scores[r]));
  }
};

/// Values of the three metrics by row.
struct Found {
  std::vector<float> tokens, of16, of128;
};

Found run(DeviceChunk& on, const CudaSelection& selection, StageClock& clock) {
  const CudaExactRanks ranks = cuda_exact_ranks(on.chunk);
  on.chunk.exact_order = &ranks.order;
  CudaExactRows exact;
  exact.chunk = &on.chunk;
  exact.clock = &clock;
  exact.ranks = &ranks;
  CudaSelectorRows rows;
  rows.exact = &exact;
  rows.selection = &selection;
  float* cells[3];
  for (float*& array : cells) array = on.gpu.arena.take<float>(on.num_cells());
  cuda_rank_correlation(
      rows, CudaCells({{"spearman", cells[0]}, {"spearman_block16", cells[1]}, {"spearman_block128", cells[2]}}));
  on.chunk.exact_order = nullptr;
  return {on.download_cells(cells[0]), on.download_cells(cells[1]), on.download_cells(cells[2])};
}

void expect_same(float found, float expected, std::size_t row) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << "row " << row << ": " << found;
  } else {
    EXPECT_EQ(found, expected) << "row " << row;
  }
}

TEST_P(RankCorrelationMetrics, SpearmanIsOverTheCoveredTokens) {
  DeviceChunk on(GetParam());
  StageClock clock;
  for (int width : {1, 16, 24})
    for (bool all : {true, false}) {
      CudaSelection selection;
      selection.covers_all = all;
      selection.covered =
          RowCounts(on.chunk, [all](std::int64_t visible) { return all ? visible : visible - visible / 3; });
      const Entries estimate(on, width, selection.covered);
      selection.estimate = on.upload(estimate.tokens);
      if (width > 1) {
        selection.entry_width = width;
        selection.entries = on.gpu.upload_rows(estimate.entries, (on.chunk.rows.max_length + width - 1) / width);
      }
      const Found found = run(on, selection, clock);
      SCOPED_TRACE(width);
      for (std::size_t r = 0; r < on.scores.size(); ++r) expect_same(found.tokens[r], estimate.rho(on, r), r);
    }
}

TEST_P(RankCorrelationMetrics, ExactScoresCorrelateFully) {
  DeviceChunk on(GetParam());
  StageClock clock;
  CudaSelection selection;
  selection.covered = RowCounts(on.chunk, [](std::int64_t visible) { return visible; });
  selection.estimate = on.chunk.exact;
  selection.estimate_low = on.chunk.exact_low;
  const Found found = run(on, selection, clock);
  for (std::size_t r = 0; r < on.scores.size(); ++r) {
    const std::vector<int> own = plain_centred_ranks(on.scores[r]);
    expect_same(found.tokens[r], plain_rho(own, own), r);
    const Row scores(on.scores[r].begin(), on.scores[r].end());
    EXPECT_TRUE(near_metric(found.of16[r], plain_block_spearman(scores, scores, 16), kRhoRounded)) << "row " << r;
    EXPECT_TRUE(near_metric(found.of128[r], plain_block_spearman(scores, scores, 128), kRhoRounded)) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RankCorrelationMetrics, testing::ValuesIn(all_device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
