// Output and log-sum-exp of every setting on the device, against one softmax per setting and against the CPU.
#include <gtest/gtest.h>

#include "kernels/attention/setting_outputs.h"
#include "kernels/attention/setting_outputs_cuda.h"
#include "tests/kernels/attention/ordered_sweep.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/plain_quantize.h"

namespace attest::test {
namespace {

// Relative to the weighted mean of |values|. Weights, products and sums have the errors of sweep_in_runs_gpu_test.cu.
constexpr double kOutput = 0x1p-14;
// The sum of weights is off by about 2^-20. Scores around 3000 are exact, as both sides get them in float32.
constexpr double kLse = 0x1p-18;

/// Values of which the first count[row] of each row are others than the layer's. Without them all are exact.
struct Values {
  DeviceValues on_device;
  Rows<double> approximate;  ///< [values of the layer][Dv]
  std::vector<int> count;    ///< [rows]

  double value(const DeviceLayer& on, int r, int j, int d) const {
    if (count.empty() || j >= count[static_cast<std::size_t>(r)]) return on.row(r).v(j, d);
    const KeyOrigin& origin = on.origins[static_cast<std::size_t>(on.origin[static_cast<std::size_t>(r)])];
    const std::int64_t at = origin.kv_head * on.layer.num_tokens + origin.first_key + j;
    return approximate[static_cast<std::size_t>(at)][static_cast<std::size_t>(d)];
  }
};

Values kivi_values(const DeviceLayer& on, Gpu& gpu) {
  constexpr int kBits = 2;
  const int dim = on.kv.value_dim;
  int group = std::min(32, dim);
  while (dim % group != 0) --group;
  const std::int64_t vectors = on.layer.shape.num_kv_heads * on.layer.num_tokens;
  const std::vector<float> all = floats_of(on.layer.element_type, on.layer.v, 0, vectors * dim);
  Values values;
  std::vector<float2> groups;
  for (auto first = all.begin(); first != all.end(); first += group) {
    const Row own(first, first + group);
    const double lo = *std::min_element(own.begin(), own.end()), hi = *std::max_element(own.begin(), own.end());
    groups.push_back({static_cast<float>(lo), static_cast<float>(f32(hi - lo) / 3)});
    if (groups.size() % static_cast<std::size_t>(dim / group) == 1 || dim == group) values.approximate.emplace_back();
    for (double x : plain_kivi(own, kBits, false, ElementType::float32)) values.approximate.back().push_back(x);
  }
  for (int r = 0; r < on.rows.num_rows; ++r) {
    const int length = on.length(r), choices[] = {length, 0, length / 2, std::max(0, length - 33)};
    values.count.push_back(choices[r / on.rows.group % 4]);
  }
  values.on_device = {gpu.upload(groups), {.bits = kBits, .group = group}, gpu.upload(values.count), {}};
  return values;
}

/// The CPU's outputs of all rows, in the device's row order.
std::vector<SettingOutputs> cpu_outputs(const DeviceLayer& on, const DeviceSweep& sweep, const Values& values) {
  std::vector<SettingOutputs> all;
  for (int first = 0; first < on.rows.num_rows;) {
    const KvHead& head = on.head_of(first).head;
    RowMatrix<double> scores;
    RowMatrix<Level> levels;
    scores.resize(head.rows(), head.length);
    levels.resize(head.rows(), head.length);
    std::vector<std::int64_t> count;
    std::vector<float> approximate;
    for (int r = 0; r < head.rows(); ++r) {
      for (int j = 0; j < on.length(first + r); ++j) {
        scores.row(r)[j] = sweep.score(first + r, j);
        levels.row(r)[j] = static_cast<Level>(sweep.level(first + r, j));
      }
      if (r % head.group == 0 && !values.count.empty())
        count.push_back(values.count[static_cast<std::size_t>(first + r)]);
    }
    const KeyOrigin& origin = on.origins[static_cast<std::size_t>(on.origin[static_cast<std::size_t>(first)])];
    for (std::int64_t j = 0; j < head.length && !count.empty(); ++j)
      for (double x :
           values.approximate[static_cast<std::size_t>(origin.kv_head * on.layer.num_tokens + origin.first_key + j)])
        approximate.push_back(static_cast<float>(x));
    std::vector<SettingOutputs> own;
    accumulate_settings(head, scores, levels, {count.empty() ? nullptr : approximate.data(), count},
                        sweep.view.num_settings, own);
    all.insert(all.end(), own.begin(), own.end());
    first += head.rows();
  }
  return all;
}

/// Host copies of lse [rows, S] and output [rows, S, Dv].
struct HostOutputs {
  std::vector<float> output;
  std::vector<double> lse;

  HostOutputs(const DeviceOutputs& of, int rows, const Gpu& gpu) {
    const auto cells = static_cast<std::size_t>(rows * of.num_settings);
    output = gpu.download(of.output, cells * static_cast<std::size_t>(of.value_dim));
    lse = gpu.download(of.lse, cells);
  }
};

void expect_outputs(const DeviceLayer& on, const DeviceSweep& sweep, const Values& values, const HostOutputs& found) {
  const int settings = sweep.view.num_settings, dim = on.kv.value_dim;
  const std::vector<SettingOutputs> cpu = cpu_outputs(on, sweep, values);
  for (int r = 0; r < on.rows.num_rows; ++r)
    for (int i = 0; i < settings; ++i) {
      const std::size_t row = static_cast<std::size_t>(r), setting = static_cast<std::size_t>(i),
                        cell = row * static_cast<std::size_t>(settings) + setting;
      std::vector<int> kept;
      for (int j = 0; j < on.length(r); ++j)
        if (sweep.level(r, j) <= i) kept.push_back(j);
      const PlainLevelSum sum = plain_level_sum(sweep, r, kept);
      const PlainValues plain =
          plain_values(sweep, r, kept, sum.max, dim, [&](int j, int d) { return values.value(on, r, j, d); });
      const double lse = kept.empty() ? sum.max : sum.max + std::log(sum.sum);
      if (kept.empty()) {
        ASSERT_EQ(found.lse[cell], lse) << "row " << r << ", setting " << i;
      } else {
        ASSERT_LE(std::fabs(found.lse[cell] - lse), kLse) << "row " << r << ", setting " << i;
        ASSERT_LE(std::fabs(found.lse[cell] - cpu[row].lse[setting]), kLse) << "row " << r << ", setting " << i;
      }
      for (std::size_t d = 0; d < plain.sum.size(); ++d) {
        const double output = static_cast<double>(found.output[cell * plain.sum.size() + d]),
                     weight = kept.empty() ? 1 : sum.sum, tolerance = kOutput * plain.magnitude[d] / weight;
        ASSERT_LE(std::fabs(output - plain.sum[d] / weight), tolerance)
            << "row " << r << ", setting " << i << ", channel " << d;
        ASSERT_LE(std::fabs(output - cpu[row].output_of(i)[d]), tolerance)
            << "row " << r << ", setting " << i << ", channel " << d;
      }
    }
}

class SettingOutputsCuda : public OnGpuWith<Case> {
 protected:
  void expect(const DeviceLayer& on, const DeviceSweep& sweep, const Values& values, Gpu& gpu) {
    const DeviceOutputs out = take_outputs(on.rows, sweep.view.num_settings, on.kv.value_dim, gpu.arena);
    cuda_setting_outputs(on.rows, on.kv, sweep.view, values.on_device, out, gpu.arena, gpu.stream);
    SCOPED_TRACE(testing::Message() << sweep.view.num_settings << " settings");
    expect_outputs(on, sweep, values, HostOutputs(out, on.rows.num_rows, gpu));
  }
};

TEST_P(SettingOutputsCuda, MatchPlainSoftmaxForAllLevelPatterns) {
  Gpu of_layer;
  const DeviceLayer on(GetParam(), of_layer);
  for (int settings : {1, 2, 5})
    for (Runs runs : kAllRuns) {
      Gpu gpu;
      SCOPED_TRACE(name_of(runs));
      expect(on, random_sweep(on, settings, runs, runs == Runs::any ? 3000 : 2, gpu), {}, gpu);
    }
}

TEST_P(SettingOutputsCuda, OfLevelsAlongAnOrder) {
  Gpu of_layer;
  const DeviceLayer on(GetParam(), of_layer);
  for (int settings : {2, 3, 7}) {
    Gpu gpu;
    expect(on, ordered_sweep(on, settings, 2, gpu), {}, gpu);
  }
}

TEST_P(SettingOutputsCuda, OfApproximateValues) {
  Gpu of_layer;
  const DeviceLayer on(GetParam(), of_layer);
  for (Runs runs : {Runs::all, Runs::mixture}) {
    Gpu gpu;
    SCOPED_TRACE(name_of(runs));
    expect(on, random_sweep(on, runs == Runs::all ? 1 : 4, runs, 2, gpu), kivi_values(on, gpu), gpu);
  }
  Gpu gpu;
  expect(on, ordered_sweep(on, 3, 2, gpu), kivi_values(on, gpu), gpu);
}

// Float32 values in place of the layer's, from the first token that a row sees.
TEST_P(SettingOutputsCuda, OfMadeValues) {
  Gpu of_layer;
  const DeviceLayer on(GetParam(), of_layer);
  const int dim = on.kv.value_dim;
  const std::vector<float> all =
      floats_of(on.layer.element_type, on.layer.v, 0, on.layer.shape.num_kv_heads * on.layer.num_tokens * dim);
  int first_token = on.origins[0].first_key;
  for (const KeyOrigin& origin : on.origins) first_token = std::min(first_token, origin.first_key);
  const std::int64_t tokens = on.layer.num_tokens - first_token;
  std::vector<KeyOrigin> origins = on.origins;
  for (KeyOrigin& origin : origins) origin.first_key -= first_token;
  std::vector<float> made;
  Values values;
  values.approximate.resize(static_cast<std::size_t>(on.layer.shape.num_kv_heads * on.layer.num_tokens));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float other = 0.37f * all[i] + 0.1f;
    values.approximate[i / static_cast<std::size_t>(dim)].push_back(other);
    if (static_cast<std::int64_t>(i) / dim % on.layer.num_tokens >= first_token) made.push_back(other);
  }
  values.count = on.visible;
  values.on_device.made = {of_layer.upload(made), tokens, of_layer.upload(origins)};
  for (Runs runs : {Runs::all, Runs::mixture}) {
    Gpu gpu;
    SCOPED_TRACE(name_of(runs));
    expect(on, random_sweep(on, runs == Runs::all ? 1 : 4, runs, 2, gpu), values, gpu);
  }
  Gpu gpu;
  expect(on, ordered_sweep(on, 3, 2, gpu), values, gpu);
}

TEST_P(SettingOutputsCuda, OfExactAttention) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const DeviceSweep sweep = random_sweep(on, 1, Runs::all, 2, gpu);
  const PlainLevels sums = plain_levels(on, sweep, gpu);
  const DeviceOutputs out = take_outputs(on.rows, 1, on.kv.value_dim, gpu.arena);
  cuda_exact_outputs(on.rows, on.kv, sweep.view.scores, sums.on_device, out, gpu.arena, gpu.stream);
  expect_outputs(on, sweep, {}, HostOutputs(out, on.rows.num_rows, gpu));
}

// A chunk of only the first rows, in other batches. Ranges of tokens depend only on the longest row of the layer.
TEST_P(SettingOutputsCuda, ChunkingGivesBitIdenticalOutputs) {
  Gpu of_layer;
  const DeviceLayer on(GetParam(), of_layer);
  for (bool ordered : {false, true}) {
    Gpu gpu;
    const SweepView view =
        ordered ? ordered_sweep(on, 5, 2, gpu).view : random_sweep(on, 5, Runs::mixture, 2, gpu).view;
    const DeviceOutputs all = take_outputs(on.rows, 5, on.kv.value_dim, gpu.arena);
    cuda_setting_outputs(on.rows, on.kv, view, {}, all, gpu.arena, gpu.stream);
    for (int rows : {on.rows.group, std::max(1, on.rows.num_rows / on.rows.group / 2) * on.rows.group}) {
      const DeviceOutputs out = take_outputs(on.rows, 5, on.kv.value_dim, gpu.arena);
      cuda_setting_outputs(on.first_rows(rows, 11, gpu), on.kv, view, {}, out, gpu.arena, gpu.stream);
      const HostOutputs expected(all, rows, gpu), found(out, rows, gpu);
      EXPECT_TRUE(found.output == expected.output) << rows << " rows";
      EXPECT_TRUE(found.lse == expected.lse) << rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SettingOutputsCuda, testing::ValuesIn(all_device_cases()), name_of_case);

class ManySettingOutputsCuda : public SettingOutputsCuda {};

TEST_P(ManySettingOutputsCuda, OfMoreThan64) {
  Gpu of_layer;
  const DeviceLayer on(GetParam(), of_layer);
  for (Runs runs : {Runs::tokens, Runs::mixture}) {
    Gpu gpu;
    SCOPED_TRACE(name_of(runs));
    expect(on, random_sweep(on, 70, runs, 2, gpu), {}, gpu);
  }
  Gpu gpu;
  expect(on, ordered_sweep(on, 70, 2, gpu), {}, gpu);
}

INSTANTIATE_TEST_SUITE_P(Cases, ManySettingOutputsCuda,
                         testing::Values(cases()[0], device_cases()[0], device_cases()[4], device_cases()[9]),
                         name_of_case);

}  // namespace
}  // namespace attest::test
