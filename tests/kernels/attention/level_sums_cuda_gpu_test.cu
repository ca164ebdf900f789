// Maxima and weights of every level against sums in double, their merge into settings, and the fixed-point sums that
// they use.
#include <gtest/gtest.h>

#include "kernels/attention/level_sums_cuda.cuh"
#include "kernels/attention/level_sums_cuda.h"
#include "tests/kernels/attention/device_sweep.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

// The weight of each run of tokens is rounded to a multiple of 2^-40.
constexpr double kFixedPoint = 0x1p-41;
// The merge works in double; outputs are rounded to float32.
constexpr double kFloat = 0x1p-24, kDouble = 1e-13;

class LevelSumsCuda : public OnGpuWith<Case> {};

TEST_P(LevelSumsCuda, AreOfEveryLevel) {
  Gpu of_layer;
  const DeviceLayer on(GetParam(), of_layer);
  for (int settings : {1, 2, 5, 70})
    for (Runs runs : kAllRuns)
      for (double spread : {2.0, 3000.0}) {
        Gpu gpu;
        DeviceSweep sweep = random_sweep(on, settings, runs, spread, gpu);
        sweep.view.sums = take_level_sums(on.rows, settings, gpu.arena);
        sweep.view.begin = sweep.view.end = gpu.upload(std::vector<int>(on.visible.size(), 1));  // must be ignored
        cuda_sum_levels(on.rows, sweep.view, gpu.stream);
        const std::vector<int> counts(on.visible.size(), settings);
        const Rows<float> max =
            gpu.download_rows(RaggedRows<float>{sweep.view.sums.max, gpu.upload(counts), on.rows.num_rows, settings});
        const Rows<double> sum =
            gpu.download_rows(RaggedRows<double>{sweep.view.sums.sum, gpu.upload(counts), on.rows.num_rows, settings});
        for (int r = 0; r < on.rows.num_rows; ++r)
          for (int level = 0; level < settings; ++level) {
            const std::vector<int> tokens = sweep.tokens_at(r, level, 0, on.length(r));
            const PlainLevelSum plain = plain_level_sum(sweep, r, tokens);
            const auto row = static_cast<std::size_t>(r), at = static_cast<std::size_t>(level);
            ASSERT_EQ(max[row][at], plain.max) << name_of(runs) << ", row " << r << ", level " << level;
            ASSERT_LE(std::fabs(sum[row][at] - plain.sum), plain.error + kFixedPoint * tokens.size())
                << name_of(runs) << ", row " << r << ", level " << level << " of " << settings;
          }
      }
}

INSTANTIATE_TEST_SUITE_P(Cases, LevelSumsCuda, testing::ValuesIn(device_cases()), name_of_case);

struct Merge {
  int settings, value_dim;
  std::vector<int> splits;  ///< of each pass: its number of token ranges
};

class MergeLevelsCuda : public OnGpuWith<Merge> {};

TEST_P(MergeLevelsCuda, AddsUpWhatIsPresent) {
  const auto& [settings, dim, splits] = GetParam();
  constexpr int kRows = 5;
  const int pitch = (dim + 1) / 2 * 2;
  Gpu gpu;
  Random random(9);
  DeviceRows rows;
  rows.num_rows = kRows;
  Rows<float> max(kRows);
  Rows<double> sum(kRows);
  for (int r = 0; r < kRows; ++r)
    for (int level = 0; level < settings; ++level) {
      const bool some = r != 4 && random.below(4) != 0;  // the last row keeps nothing
      max[r].push_back(some ? static_cast<float>(10 * random.normal()) : -std::numeric_limits<float>::infinity());
      sum[r].push_back(some ? random.uniform(1, 50) : 0);
    }
  std::vector<LevelPartials> partials;
  Rows<float> sums;  // [pass][split, row, level, channel]
  Rows<std::uint8_t> present;
  for (int num_splits : splits) {
    const std::size_t cells = static_cast<std::size_t>(num_splits) * kRows * settings;
    sums.emplace_back(cells * pitch);
    present.emplace_back(cells);
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const std::size_t r = cell / settings % kRows, level = cell % settings;
      present.back()[cell] = sum[r][level] > 0 && random.below(3) != 0 ? 1 : 0;
      for (int d = 0; d < pitch; ++d)
        sums.back()[cell * pitch + d] = present.back()[cell] != 0 ? static_cast<float>(random.normal()) : std::nanf("");
    }
    partials.push_back({num_splits, pitch, gpu.upload(sums.back()), gpu.upload(present.back())});
  }
  const DeviceOutputs out = take_outputs(rows, settings, dim, gpu.arena);
  EXPECT_EQ(out.num_settings, settings);
  EXPECT_EQ(out.value_dim, dim);
  cuda_merge_levels(rows, {gpu.upload_rows(max, settings + 1).items, gpu.upload_rows(sum, settings + 3).items},
                    partials.data(), static_cast<int>(partials.size()), out, gpu.stream);
  const std::vector<float> output = gpu.download(out.output, static_cast<std::size_t>(kRows) * settings * dim);
  const std::vector<double> lse = gpu.download(out.lse, static_cast<std::size_t>(kRows) * settings);
  for (int r = 0; r < kRows; ++r)
    for (int i = 0; i < settings; ++i) {
      double maximum = -std::numeric_limits<double>::infinity(), weight = 0;
      for (int level = 0; level <= i; ++level) maximum = std::max(maximum, static_cast<double>(max[r][level]));
      Row value(dim, 0.0), magnitude(dim, 0.0);
      for (int level = 0; level <= i; ++level) {
        if (sum[r][level] == 0) continue;
        const double share = std::exp(max[r][level] - maximum);
        weight += share * sum[r][level];
        for (std::size_t p = 0; p < splits.size(); ++p)
          for (int split = 0; split < splits[p]; ++split) {
            const std::size_t cell = (static_cast<std::size_t>(split) * kRows + r) * settings + level;
            for (int d = 0; d < dim && present[p][cell] != 0; ++d) {
              value[d] += share * sums[p][cell * pitch + d];
              magnitude[d] += share * std::fabs(sums[p][cell * pitch + d]);
            }
          }
      }
      const std::size_t cell = static_cast<std::size_t>(r) * settings + i;
      if (weight == 0) {
        ASSERT_EQ(lse[cell], -std::numeric_limits<double>::infinity());
        for (int d = 0; d < dim; ++d) ASSERT_EQ(output[cell * dim + d], 0);
        continue;
      }
      ASSERT_LE(std::fabs(lse[cell] - (maximum + std::log(weight))), kDouble * (1 + std::fabs(maximum)));
      for (int d = 0; d < dim; ++d)
        ASSERT_LE(std::fabs(output[cell * dim + d] - value[d] / weight),
                  kFloat * std::fabs(value[d] / weight) + kDouble * magnitude[d] / weight)
            << "row " << r << ", setting " << i << ", channel " << d;
    }
}

const Merge kMerges[] = {{1, 64, {1}},      {2, 7, {8}},        {5, 128, {9}},
                         {16, 130, {3, 3}}, {17, 192, {32, 5}}, {70, 300, {7}}};
INSTANTIATE_TEST_SUITE_P(Shapes, MergeLevelsCuda, testing::ValuesIn(kMerges), [](const auto& info) {
  return std::to_string(info.param.settings) + "_settings_of_" + std::to_string(info.param.value_dim);
});

class LevelPartialsCuda : public OnGpu {};

TEST_F(LevelPartialsCuda, BeginEmpty) {
  Gpu gpu;
  DeviceRows rows;
  rows.num_rows = 3;
  rows.max_length = 513;
  for (int longest : {600, 20000}) {  // ranges of 256 or 640 tokens
    rows.layer_max_length = longest;
    const LevelPartials partials = take_partials(rows, 4, 7, gpu.arena, gpu.stream);
    EXPECT_EQ(partials.num_splits, longest == 600 ? 3 : 1);
    EXPECT_EQ(partials.pitch, 8);
    const std::size_t cells = static_cast<std::size_t>(partials.num_splits) * 3 * 4;
    EXPECT_EQ(gpu.download(partials.present, cells), std::vector<std::uint8_t>(cells, 0));
  }
}

// A range is a whole number of tiles, at least two: the shortest with which kMaxSplits ranges cover the row.
TEST(TokensPerSplit, IsTheLeastThatSuffices) {
  for (int longest = 1; longest < 200000; longest += longest < 20000 ? 1 : 97) {
    int expected = 256;
    while (expected * 32 < longest) expected += 128;
    ASSERT_EQ(tokens_per_split(longest), expected) << longest;
  }
}

constexpr int kThreads = 256;

__global__ void add_kernel(const unsigned long long* terms, unsigned long long* sum) {
  __shared__ unsigned long long shared;
  if (threadIdx.x == 0) shared = 0;
  __syncthreads();
  for (int i = 0; i < 8; ++i) add_atomically(&shared, terms[threadIdx.x * 8 + i]);
  __syncthreads();
  if (threadIdx.x == 0) *sum = shared;
}

class AddAtomicallyCuda : public OnGpu {};

TEST_F(AddAtomicallyCuda, CarriesIntoTheUpperHalf) {
  Gpu gpu;
  Random random(3);
  std::vector<unsigned long long> terms(kThreads * 8);
  unsigned long long expected = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    terms[i] = i % 3 == 0 ? 0xFFFFFFFFull : random.bits() >> (12 + random.below(50));
    expected += terms[i];
  }
  auto* sum = gpu.arena.take<unsigned long long>(1);
  add_kernel<<<1, kThreads, 0, gpu.stream>>>(gpu.upload(terms), sum);
  EXPECT_EQ(gpu.download(sum, 1)[0], expected);
}

__global__ void levels_of_warp_kernel(const int* levels, int* lanes_of, int* calls) {
  const int level = levels[threadIdx.x];
  for_levels_of_warp(level, [&](int here, bool takes_part) {
    const unsigned lanes = __ballot_sync(0xFFFFFFFFu, takes_part);
    if (threadIdx.x != 0) return;
    lanes_of[here] = static_cast<int>(lanes);
    ++*calls;
  });
}

class ForLevelsOfWarpCuda : public OnGpu {};

TEST_F(ForLevelsOfWarpCuda, CallsOncePerLevel) {
  Gpu gpu;
  Random random(4);
  for (int distinct : {1, 2, 7, 32}) {
    std::vector<int> levels(32), expected(32, 0);
    int calls = 0;
    for (int lane = 0; lane < 32; ++lane) {
      levels[lane] = distinct == 32 ? 31 - lane : static_cast<int>(random.below(distinct));
      calls += expected[levels[lane]] == 0 ? 1 : 0;
      expected[levels[lane]] |= static_cast<int>(1u << lane);
    }
    int *lanes_of = gpu.upload(std::vector<int>(32, 0)), *found_calls = gpu.upload(std::vector<int>(1, 0));
    levels_of_warp_kernel<<<1, 32, 0, gpu.stream>>>(gpu.upload(levels), lanes_of, found_calls);
    EXPECT_EQ(gpu.download(lanes_of, 32), expected) << distinct;
    EXPECT_EQ(gpu.download(found_calls, 1)[0], calls) << distinct;
  }
}

}  // namespace
}  // namespace attest::test
