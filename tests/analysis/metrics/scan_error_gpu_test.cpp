// Moments and tails of the scan error, and Pearson's r: the device against the definitions.
#include <gtest/gtest.h>

#include <map>

#include "analysis/metrics/scan_error.h"
#include "tests/analysis/metrics/device_selection.h"
#include "tests/analysis/plain_metrics.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/rank/value_rows.h"
#include "tests/near.h"

namespace attest::test {
namespace {

// Relative to max(1, |value|): deviations of eight tokens are added in float32.
constexpr double kTolerance = 2e-5;
// More lambdas than one pass counts.
const std::vector<double> kLambdas{0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6};

void expect_near(float found, double expected, const std::string& what) {
  EXPECT_TRUE(near_metric(found, expected, kTolerance)) << what;
}

/// Values of every row by metric, and tails [rows, lambdas].
struct Found {
  std::map<std::string, std::vector<float>> of_row;
  std::vector<float> tail, lower_tail;
};

Found run(DeviceChunk& on, const Rows<float>& estimate, const RowCounts& covered) {
  DeviceSelection of(on, 1, false);
  of.selection.estimate = on.upload(estimate);
  of.selection.covered = covered;
  of.rows.lambdas = &kLambdas;
  const std::size_t lambdas = kLambdas.size(), cells = on.num_cells();
  std::vector<CudaCells::Array> arrays;
  for (const char* name : {"pearson", "scan_error_mean", "scan_error_std", "scan_error_max"})
    arrays.push_back({name, on.gpu.arena.take<float>(cells)});
  float *tail = on.gpu.arena.take<float>(cells * lambdas), *lower = on.gpu.arena.take<float>(cells * lambdas);
  std::vector<CudaCells::Array> all = arrays;
  all.push_back({"scan_error_tail", tail});
  all.push_back({"scan_error_lower_tail", lower});
  cuda_scan_error(of.rows, CudaCells(all));
  Found found;
  for (const CudaCells::Array& array : arrays) found.of_row[std::string(array.metric)] = on.download_cells(array.cells);
  const std::vector<float> tails = on.gpu.download(tail, cells * lambdas),
                           lower_tails = on.gpu.download(lower, cells * lambdas);
  for (int cell : on.on.cell)
    for (std::size_t m = 0; m < lambdas; ++m) {
      found.tail.push_back(tails[static_cast<std::size_t>(cell) * lambdas + m]);
      found.lower_tail.push_back(lower_tails[static_cast<std::size_t>(cell) * lambdas + m]);
    }
  return found;
}

class ScanErrorCuda : public OnGpuWith<Case> {};

TEST_P(ScanErrorCuda, IsOverTheCoveredTokens) {
  DeviceChunk on(GetParam());
  Random random(62);
  Rows<float> estimate;  // errors: multiples of 1/4, as the lambdas are, plus a little noise
  for (const std::vector<float>& row : on.scores) {
    estimate.emplace_back();
    for (float s : row) estimate.back().push_back(s + 0.25f * std::rint(4 * normal(random)) + 1e-3f * normal(random));
  }
  for (bool all : {true, false}) {
    const RowCounts covered(on.chunk, [all](std::int64_t visible) { return all ? visible : visible / 2; });
    const Found found = run(on, estimate, covered);
    for (std::size_t r = 0; r < on.scores.size(); ++r) {
      const Row own(estimate[r].begin(), estimate[r].begin() + covered.host[r]);
      const Row exact(on.scores[r].begin(), on.scores[r].end());
      const std::string where = " of row " + std::to_string(r);
      const Metrics plain = plain_estimate_metrics(own, exact);
      for (const auto& [name, values] : found.of_row) expect_near(values[r], plain.at(name), name + where);
      Row rounded = own;  // the device rounds errors to float32
      for (std::size_t j = 0; j < own.size(); ++j) rounded[j] = exact[j] + f32(own[j] - exact[j]);
      for (std::size_t m = 0; m < kLambdas.size(); ++m) {
        const auto [tail, lower] = plain_tails(rounded, exact, kLambdas[m]);
        expect_near(found.tail[r * kLambdas.size() + m], tail, "tail" + where);
        expect_near(found.lower_tail[r * kLambdas.size() + m], lower, "lower tail" + where);
      }
    }
  }
}

// -inf is a valid estimate, but moments around it are undefined.
TEST_P(ScanErrorCuda, WithEstimatesOfMinusInfinity) {
  DeviceChunk on(GetParam());
  const RowCounts covered(on.chunk, [](std::int64_t visible) { return visible; });
  for (int which : {0, 1, 2}) {
    Rows<float> estimate = on.scores;
    for (std::vector<float>& row : estimate)
      row[static_cast<std::size_t>(which) * (row.size() - 1) / 2] = -kInfinity;  // the first, the middle, the last
    const Found found = run(on, estimate, covered);
    for (std::size_t r = 0; r < on.scores.size(); ++r) {
      EXPECT_TRUE(std::isnan(found.of_row.at("pearson")[r])) << "row " << r << ": " << found.of_row.at("pearson")[r];
      EXPECT_EQ(found.of_row.at("scan_error_mean")[r], -kInfinity) << "row " << r;
      EXPECT_TRUE(std::isnan(found.of_row.at("scan_error_std")[r])) << "row " << r;
      EXPECT_EQ(found.of_row.at("scan_error_max")[r], kInfinity) << "row " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ScanErrorCuda, testing::ValuesIn(device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
