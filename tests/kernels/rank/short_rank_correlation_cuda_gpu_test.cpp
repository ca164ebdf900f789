// Ranks by comparing every pair, for doubles that float32 could not distinguish.
#include <gtest/gtest.h>

#include "kernels/rank/short_rank_correlation_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

/// Rows with lengths around the 128 threads of a block: values that differ only in the last bits, with ties, normally
/// distributed, or constant.
Rows<double> short_rows() {
  Random random(12);
  Rows<double> rows;
  for (int count : {0, 1, 2, 3, 31, 127, 128, 129, 300})
    for (int kind = 0; kind < 4; ++kind) {
      rows.emplace_back();
      for (int i = 0; i < count; ++i)
        rows.back().push_back(kind == 0   ? 1 + 0x1p-50 * static_cast<double>(random.below(1 << 20))
                              : kind == 1 ? static_cast<double>(random.below(4))
                              : kind == 2 ? random.normal()
                                          : 0.1);
    }
  return rows;
}

class ShortRankCorrelationCuda : public OnGpu {};

TEST_F(ShortRankCorrelationCuda, CentredRanksShareTheirMeanAmongTies) {
  const Rows<double> rows = short_rows();
  Gpu gpu;
  std::vector<int> counts;
  for (const std::vector<double>& row : rows) counts.push_back(static_cast<int>(row.size()));
  const RaggedRows<int> centred = gpu.take_rows<int>(counts, 303);
  cuda_short_centred_ranks(gpu.upload_rows(rows, 301), centred.items, gpu.stream);
  const Rows<int> found = gpu.download_rows(centred);
  for (std::size_t r = 0; r < rows.size(); ++r) EXPECT_EQ(found[r], plain_centred_ranks(rows[r])) << "row " << r;
}

TEST_F(ShortRankCorrelationCuda, SpearmanOfTwoSetsOfRanks) {
  const Rows<double> rows = short_rows();
  Rows<int> a, b;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    a.push_back(plain_centred_ranks(rows[r]));
    b.push_back(plain_centred_ranks(rows[r / 4 * 4 + (r + r / 4) % 4]));  // of another row of equal length
  }
  Gpu gpu;
  std::vector<int> cells;
  for (std::size_t r = 0; r < rows.size(); ++r) cells.push_back(static_cast<int>(rows.size() - 1 - r));
  const RowCells rho{gpu.arena.take<float>(rows.size()), gpu.upload(cells)};
  cuda_short_spearman(gpu.upload_rows(a, 300), gpu.upload_rows(b, 310).items, rho, gpu.stream);
  const std::vector<float> found = gpu.download(rho.values, rows.size());
  int defined = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const float expected = plain_rho(a[r], b[r]), own = found[rows.size() - 1 - r];
    defined += std::isnan(expected) ? 0 : 1;
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(own)) << "row " << r;
    else
      EXPECT_EQ(own, expected) << "row " << r;
  }
  EXPECT_GT(defined, 10);
}

}  // namespace
}  // namespace attest::test
