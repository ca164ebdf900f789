// Rank correlation of block maxima on the device against plain ranks of plain maxima.
#include <gtest/gtest.h>

#include "analysis/metrics/block_ranks_cuda.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/rank/value_rows.h"
#include "tests/kernels/selectors/device_chunk.h"

namespace attest::test {
namespace {

/// Maxima of the full blocks among the first `covered` values.
Row maxima_of(const Row& values, int covered, int block) {
  Row maxima;
  for (int first = 0; first + block <= covered; first += block)
    maxima.push_back(*std::max_element(values.begin() + first, values.begin() + first + block));
  return maxima;
}

void expect_rho(float found, const Row& estimate, const Row& exact, int covered, int block, int row) {
  const float expected = plain_rho(plain_centred_ranks(maxima_of(estimate, covered, block)),
                                   plain_centred_ranks(maxima_of(exact, covered, block)));
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << "row " << row << ", blocks of " << block << ": " << found;
  } else {
    EXPECT_EQ(found, expected) << "row " << row << ", blocks of " << block;
  }
}

/// Noisy copies of the scores: `precise` in double, split into a float32 value `high` and its rounding error `low`.
struct Estimate {
  Rows<float> high, low;
  Rows<double> precise;

  explicit Estimate(const DeviceChunk& on) {
    Random random(51);
    for (const std::vector<double>& row : on.precise) {
      high.emplace_back(), low.emplace_back(), precise.emplace_back();
      for (double score : row) {
        const double x = score + random.normal();
        high.back().push_back(static_cast<float>(x));
        low.back().push_back(static_cast<float>(x - static_cast<double>(high.back().back())));
        precise.back().push_back(static_cast<double>(high.back().back()) + static_cast<double>(low.back().back()));
      }
    }
  }
};

class BlockRanksCuda : public OnGpuWith<Case> {};

TEST_P(BlockRanksCuda, CorrelateTheMaximaOfFullBlocks) {
  DeviceChunk on(GetParam());
  const Estimate estimate(on);
  const bool is_short = on.chunk.exact_low != nullptr;
  const float *high = on.upload(estimate.high), *low = is_short ? on.upload(estimate.low) : nullptr;
  for (bool all : {true, false})
    for (const float* rest : {low, static_cast<const float*>(nullptr)}) {  // the rounding error is optional
      const RowCounts covered(on.chunk, [all](std::int64_t visible) { return all ? visible : visible * 3 / 4; });
      float *rho16 = on.gpu.arena.take<float>(on.num_cells()), *rho128 = on.gpu.arena.take<float>(on.num_cells());
      const CudaBlockRanks ranks(on.chunk, covered);
      ranks.correlate(on.chunk, high, rest, rho16, rho128);
      const std::vector<float> found16 = on.download_cells(rho16), found128 = on.download_cells(rho128);
      for (std::size_t r = 0; r < found16.size(); ++r) {
        const Row coarse(estimate.high[r].begin(), estimate.high[r].end());
        const Row& own = rest == nullptr ? coarse : estimate.precise[r];
        const int count = covered.host[r], row = static_cast<int>(r);
        expect_rho(found16[r], own, on.precise[r], count, 16, row);
        expect_rho(found128[r], own, on.precise[r], count, 128, row);
      }
    }
}

TEST_P(BlockRanksCuda, TheScoresThemselvesCorrelateFully) {
  DeviceChunk on(GetParam());
  const RowCounts covered(on.chunk, [](std::int64_t visible) { return visible; });
  float *rho16 = on.gpu.arena.take<float>(on.num_cells()), *rho128 = on.gpu.arena.take<float>(on.num_cells());
  const CudaBlockRanks ranks(on.chunk, covered);
  ranks.correlate(on.chunk, on.chunk.exact, on.chunk.exact_low, rho16, rho128);
  const std::vector<float> found = on.download_cells(rho16);
  for (std::size_t r = 0; r < found.size(); ++r) {
    const Row maxima = maxima_of(on.precise[r], covered.host[r], 16);
    const bool constant = maxima.size() < 2 || *std::max_element(maxima.begin(), maxima.end()) ==
                                                   *std::min_element(maxima.begin(), maxima.end());
    if (constant) {
      EXPECT_TRUE(std::isnan(found[r])) << "row " << r;
    } else {
      EXPECT_EQ(found[r], 1) << "row " << r;
    }
  }
}

// Includes the cases of tests/cases.h for tied keys and constant rows.
INSTANTIATE_TEST_SUITE_P(Cases, BlockRanksCuda, testing::ValuesIn(all_device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
