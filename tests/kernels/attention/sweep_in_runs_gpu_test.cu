// The sweep over tiles of values: sums of every (range of tokens, row, level) against sums in double.
#include <gtest/gtest.h>

#include "kernels/attention/sweep_in_runs.cuh"
#include "tests/kernels/attention/device_sweep.h"
#include "tests/kernels/device_cases.h"

namespace attest::test {
namespace {

// Relative to the sum of magnitudes: products of parts are exact, up to six sums per 16 tokens are truncated.
constexpr double kPerGroup = 0x1p-19;
// 16-bit types have two bfloat16 parts of 8 bits: a weight loses at most 2^-16 of itself, and the product of the two
// second parts, another 2^-16, is left out. float32 has three parts.
constexpr double kParts16 = 0x1p-15, kParts32 = 0x1p-22;

/// A value form that uses every field of ValuePlace. All its steps but the last are exact.
struct MarkedValues {
  static constexpr bool exact = false;

  __host__ __device__ static float term(std::int64_t value, int channel) {
    return static_cast<float>(value % 5) - static_cast<float>(channel % 3) / 2;
  }
  __device__ void operator()(const ValuePlace& place, float (&value)[kOctet]) const {
    for (int i = 0; i < kOctet; ++i) value[i] = __fadd_rn(2 * value[i], term(place.value, place.channel + i));
  }
};

double value_of(const DeviceLayer& on, const ExactValues&, int r, int j, int d) { return on.row(r).v(j, d); }
double value_of(const DeviceLayer& on, const MarkedValues&, int r, int j, int d) {
  const KeyOrigin& origin = on.origins[on.origin[r]];
  const std::int64_t value = origin.kv_head * on.layer.num_tokens + origin.first_key + j;
  return f32(2 * on.row(r).v(j, d) + MarkedValues::term(value, d));
}

/// Each row sweeps its tokens [begin, end).
struct Pass {
  std::vector<int> begin, end;  ///< [rows]
};

template <class Form>
void expect_partials(const DeviceLayer& on, const Form& form, const DeviceSweep& sweep, const PlainLevels& levels,
                     const Pass& pass, const HostPartials& found, int per_split) {
  const double parts = on.kv.type == ElementType::float32 ? kParts32 : kParts16;
  for (int r = 0; r < on.rows.num_rows; ++r)
    for (int split = 0; split < found.partials.num_splits; ++split)
      for (int level = 0; level < found.settings; ++level) {
        const std::vector<int> tokens = sweep.tokens_at(r, level, std::max(pass.begin[r], split * per_split),
                                                        std::min(pass.end[r], (split + 1) * per_split));
        ASSERT_TRUE(found.has(split, r, level) || tokens.empty()) << "row " << r << ", level " << level;
        if (!found.has(split, r, level)) continue;
        int groups = 0;
        for (std::size_t i = 0; i < tokens.size(); ++i) groups += i == 0 || tokens[i] / 16 != tokens[i - 1] / 16;
        const PlainValues plain = plain_values(sweep, r, tokens, levels.max[r][level], on.kv.value_dim,
                                               [&](int j, int d) { return value_of(on, form, r, j, d); });
        for (int d = 0; d < on.kv.value_dim; ++d)
          ASSERT_LE(std::fabs(found.value(split, r, level, d) - plain.sum[d]),
                    plain.error[d] + (parts + kPerGroup * groups) * plain.magnitude[d])
              << "range " << split << ", row " << r << ", level " << level << ", channel " << d;
      }
}

template <class Form>
void expect_sums(const Case& c, const Form& form, const std::vector<int>& all_settings) {
  Gpu of_layer;
  const DeviceLayer on(c, of_layer);
  for (int settings : all_settings)
    for (Runs runs : kAllRuns)
      for (bool partly : {false, true}) {
        Gpu gpu;
        const DeviceSweep sweep = random_sweep(on, settings, runs, 2, gpu);
        const PlainLevels levels = plain_levels(on, sweep, gpu);
        DeviceRows rows = on.rows;
        if (partly) rows.layer_max_length = 20000;  // ranges of 640 tokens
        SweepView view = sweep.view;
        view.sums = levels.on_device;
        Pass pass{std::vector<int>(on.visible.size(), 0), on.visible};
        for (int r = 0; partly && r < rows.num_rows; ++r) {
          pass.begin[r] = r % 3 == 0 ? 0 : r % 3 == 1 ? on.length(r) / 3 : on.length(r) / 16 * 16;
          pass.end[r] = r % 4 == 3 ? on.length(r) / 2 : on.length(r);
        }
        if (partly) view.begin = gpu.upload(pass.begin), view.end = gpu.upload(pass.end);
        const LevelPartials partials = take_partials(rows, settings, on.kv.value_dim, gpu.arena, gpu.stream);
        sweep_in_runs(rows, on.kv, view, form, partials, sweep_order(on.kv.type), gpu.stream);
        SCOPED_TRACE(testing::Message() << settings << " settings, runs: " << name_of(runs)
                                        << (partly ? ", partly" : ""));
        expect_partials(on, form, sweep, levels, pass, HostPartials(partials, rows.num_rows, settings, gpu),
                        partly ? 640 : 256);
        if (testing::Test::HasFatalFailure()) return;
      }
}

class SweepInRuns : public OnGpuWith<Case> {};

TEST_P(SweepInRuns, AddsUpEveryLevelOfEveryRange) { expect_sums(GetParam(), ExactValues{}, {1, 2, 5}); }
TEST_P(SweepInRuns, TakesValuesInTheirForm) { expect_sums(GetParam(), MarkedValues{}, {3}); }
INSTANTIATE_TEST_SUITE_P(Cases, SweepInRuns, testing::ValuesIn(all_device_cases()), name_of_case);

class SweepInManyRuns : public OnGpuWith<Case> {};

// Levels 64 apart share a bit of the 64-bit level mask.
TEST_P(SweepInManyRuns, HandlesMoreThan64Levels) { expect_sums(GetParam(), ExactValues{}, {70, 130}); }
INSTANTIATE_TEST_SUITE_P(Cases, SweepInManyRuns, testing::ValuesIn(device_cases()), name_of_case);

class SweepOfTypeInRuns : public OnGpuWith<ElementType> {};

// Rows move to other places in the 16-row tiles, so that their neighbours change.
TEST_P(SweepOfTypeInRuns, SumsDoNotDependOnTheRowsBesideThem) {
  Gpu of_layer;
  const DeviceLayer on(Case{"", 1, 7, 64, 130, GetParam(), {15, 127, 128, 200, 254, 255, 256, 257, 300, 301}},
                       of_layer);
  for (int settings : {1, 5, 70})
    for (Runs runs : kAllRuns) {
      std::vector<double> together;
      for (int maximum : {64, 16, 5}) {
        Gpu gpu;
        SweepView view = random_sweep(on, settings, runs, 2, gpu).view;
        view.sums = take_level_sums(on.rows, settings, gpu.arena);
        cuda_sum_levels(on.rows, view, gpu.stream);
        const DeviceRows rows = on.first_rows(on.rows.num_rows, maximum, gpu);
        const LevelPartials partials = take_partials(rows, settings, 130, gpu.arena, gpu.stream);
        sweep_in_runs(rows, on.kv, view, ExactValues{}, partials, sweep_order(on.kv.type), gpu.stream);
        const HostPartials found(partials, rows.num_rows, settings, gpu);
        std::vector<double> sums;
        for (int split = 0; split < partials.num_splits; ++split)
          for (int r = 0; r < rows.num_rows; ++r)
            for (int level = 0; level < settings; ++level)
              for (int d = 0; d < 130; ++d)
                sums.push_back(found.has(split, r, level) ? found.value(split, r, level, d) : 0);
        if (together.empty()) together = sums;
        EXPECT_TRUE(sums == together) << settings << " settings, runs: " << name_of(runs) << ", batches of " << maximum;
      }
    }
}

/// Each level has one token of weight 1 at an even place, where values are 0, and one of smaller weight at an odd
/// place.
TEST_P(SweepOfTypeInRuns, LoseNoPartOfAProduct) {
  constexpr int kSettings = 40, kTokens = 256, kDim = 64;
  AttentionLayer layer = make_layer({"", 1, 4, 64, kDim, GetParam(), {kTokens - 3, kTokens - 2, kTokens - 1}});
  std::vector<float> values = floats_of(layer.element_type, layer.v, 0, kTokens * kDim);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i / kDim % 2 == 0) values[i] = 0;
  layer.v = rounded(layer.element_type, values);
  Gpu gpu;
  const DeviceLayer on(std::move(layer), gpu);
  DeviceSweep sweep;
  Random random(8);
  for (int r = 0; r < on.rows.num_rows; ++r) {
    sweep.scores.emplace_back(on.length(r), 0.0f);
    sweep.levels.emplace_back(on.length(r), static_cast<Level>(kSettings));
    for (int level = 0; level < kSettings; ++level) {
      const int heavy = 2 * level,
                light = 2 * kSettings + 1 + 2 * static_cast<int>(random.below(20)) + 2 * 20 * (level % 4);
      sweep.levels[r][heavy] = static_cast<Level>(level);
      if (light < on.length(r)) {
        sweep.levels[r][light] = static_cast<Level>(level);
        sweep.scores[r][light] = static_cast<float>(-2 * random.uniform());
      }
    }
  }
  upload_sweep(on, kSettings, sweep, gpu);
  const PlainLevels levels = plain_levels(on, sweep, gpu);
  SweepView view = sweep.view;
  view.sums = levels.on_device;
  const LevelPartials partials = take_partials(on.rows, kSettings, kDim, gpu.arena, gpu.stream);
  sweep_in_runs(on.rows, on.kv, view, ExactValues{}, partials, sweep_order(on.kv.type), gpu.stream);
  const HostPartials found(partials, on.rows.num_rows, kSettings, gpu);
  const double parts = GetParam() == ElementType::float32 ? 6 * 0x1p-23 : kParts16;
  for (int r = 0; r < on.rows.num_rows; ++r)
    for (int level = 0; level < kSettings; ++level) {
      const PlainValues plain = plain_values(sweep, r, sweep.tokens_at(r, level, 0, on.length(r)), levels.max[r][level],
                                             kDim, [&](int j, int d) { return on.row(r).v(j, d); });
      for (int d = 0; d < kDim; ++d)
        ASSERT_LE(std::fabs(found.value(0, r, level, d) - plain.sum[d]), plain.error[d] + parts * plain.magnitude[d])
            << "row " << r << ", level " << level << ", channel " << d;
    }
}

/// Each level has one token. Its weight is 1, so the sum is exactly its value.
TEST_P(SweepOfTypeInRuns, SingleTokenReturnsItsValue) {
  constexpr int kSettings = 66;
  Gpu gpu;
  const DeviceLayer on(Case{"", 2, 4, 64, 72, GetParam(), {200, 254, 255, 290}}, gpu);
  DeviceSweep sweep;
  Random random(8);
  for (int r = 0; r < on.rows.num_rows; ++r) {
    sweep.scores.emplace_back();
    sweep.levels.emplace_back(on.length(r), static_cast<Level>(kSettings));
    for (int j = 0; j < on.length(r); ++j) sweep.scores[r].push_back(static_cast<float>(20 * random.normal()));
    for (int level = 0; level < kSettings; ++level) sweep.levels[r][3 * level + level % 3] = static_cast<Level>(level);
  }
  upload_sweep(on, kSettings, sweep, gpu);
  SweepView view = sweep.view;
  view.sums = plain_levels(on, sweep, gpu).on_device;
  const LevelPartials partials = take_partials(on.rows, kSettings, on.kv.value_dim, gpu.arena, gpu.stream);
  sweep_in_runs(on.rows, on.kv, view, ExactValues{}, partials, sweep_order(on.kv.type), gpu.stream);
  const HostPartials found(partials, on.rows.num_rows, kSettings, gpu);
  for (int r = 0; r < on.rows.num_rows; ++r)
    for (int level = 0; level < kSettings; ++level)
      for (int d = 0; d < on.kv.value_dim; ++d)
        ASSERT_EQ(found.value(0, r, level, d), on.row(r).v(3 * level + level % 3, d))
            << "row " << r << ", level " << level << ", channel " << d;
}

INSTANTIATE_TEST_SUITE_P(Types, SweepOfTypeInRuns,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

}  // namespace
}  // namespace attest::test
