// Metrics of the kept set and of bytes read: the device against the definitions.
#include <gtest/gtest.h>

#include <map>

#include "analysis/metrics/io_ratio.h"
#include "analysis/metrics/kept_set.h"
#include "tests/analysis/metrics/device_selection.h"
#include "tests/analysis/plain_metrics.h"
#include "tests/kernels/device_cases.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr double kMass = 1e-6;  // weights are float32 exponentials
constexpr double kFixedDelta = 2.5;
// At the first tokens, in the middle, and past the end of most layers.
const std::vector<int2> kSpans{{0, 2}, {100, 140}, {4000, 4001}};

bool is_mass(const std::string& metric) { return metric.find("mass") != std::string::npos; }

void expect_near(const std::string& name, float found, double expected, const std::string& where) {
  if (is_mass(name))
    EXPECT_TRUE(near_metric(found, expected, kMass)) << name << where;
  else  // counts, or a difference of floats
    EXPECT_TRUE(near_metric(found, static_cast<float>(expected), 0)) << name << where;
}

Kept span_tokens(const DeviceChunk& on, std::size_t r) {
  Kept spans(on.scores[r].size(), 0);
  const int first_key = on.on.origins[static_cast<std::size_t>(on.on.origin[r])].first_key;
  for (std::size_t j = 0; j < spans.size(); ++j)
    for (const int2& span : kSpans)
      if (first_key + static_cast<int>(j) >= span.x && first_key + static_cast<int>(j) < span.y) spans[j] = 1;
  return spans;
}

/// Ascending with the setting. Some tokens lie exactly at the border.
double delta_of(int query, int setting) { return 0.5 * setting + 0.25 * (query % 3); }

void expect_kept_set(AttentionLayer layer, int settings, bool leveled) {
  DeviceChunk on(std::move(layer));
  DeviceSelection of(on, settings, leveled);
  std::vector<float> max;
  std::vector<double> weight, deltas;
  for (const std::vector<float>& row : on.scores) {
    max.push_back(*std::max_element(row.begin(), row.end()));
    weight.push_back(0);
    for (float s : row) weight.back() += std::exp(static_cast<double>(s) - static_cast<double>(max.back()));
  }
  for (int n = 0; n < static_cast<int>(on.chunk.num_queries); ++n)
    for (int i = 0; i < settings; ++i) deltas.push_back(delta_of(n, i));
  of.exact.statistics = {on.gpu.upload(max), on.gpu.upload(weight)};
  of.exact.spans = {on.gpu.upload(kSpans), static_cast<int>(kSpans.size())};
  of.rows.salient_deltas = {on.gpu.upload(deltas), settings, on.chunk.rows.query};
  of.rows.fixed_salient_delta = kFixedDelta;
  std::vector<CudaCells::Array> arrays;
  for (const char* name : {"mass_recall", "keep_ratio", "salient_hit_rate", "salient_hit_rate_fixed", "salient_ratio",
                           "missed_salient_mass", "dropped_gap", "span_keep", "span_mass_kept"})
    arrays.push_back({name, of.take_cells()});
  cuda_kept_set(of.rows, CudaCells(arrays));
  std::map<std::string, std::vector<float>> found;
  for (const CudaCells::Array& array : arrays) found[std::string(array.metric)] = of.download_settings(array.cells);
  for (std::size_t r = 0; r < on.scores.size(); ++r)
    for (int i = 0; i < settings; ++i) {
      const Row scores(on.scores[r].begin(), on.scores[r].end());
      const Metrics plain =
          plain_kept_metrics(scores, of.kept(r, i), delta_of(on.on.query[r], i), kFixedDelta, span_tokens(on, r));
      ASSERT_EQ(plain.size(), arrays.size());
      const std::size_t at = r * static_cast<std::size_t>(settings) + static_cast<std::size_t>(i);
      for (const auto& [name, value] : plain)
        expect_near(name, found.at(name)[at], value, " of row " + std::to_string(r) + ", setting " + std::to_string(i));
    }
}

class KeptSetCuda : public OnGpuWith<Case> {};

TEST_P(KeptSetCuda, OfFewSettings) { expect_kept_set(make_layer(GetParam()), 4, true); }
TEST_P(KeptSetCuda, OfManySettings) { expect_kept_set(make_layer(GetParam()), 40, true); }
TEST_P(KeptSetCuda, OfASettingThatKeepsAll) { expect_kept_set(make_layer(GetParam()), 2, false); }

// A group reads a token once, no matter how many of its heads keep it.
TEST_P(KeptSetCuda, BytesOfGroups) {
  constexpr int kSettings = 11;  // more than one pass handles
  DeviceChunk on(GetParam());
  DeviceSelection of(on, kSettings, true);
  const auto group = static_cast<std::size_t>(on.chunk.rows.group);
  std::vector<int> base;
  for (std::size_t g = 0; g < on.scores.size() / group; ++g) {
    of.selection.io.push_back({.fixed = 100.0 * static_cast<double>(g), .per_kept_token = 24, .free_tokens = 1});
    base.push_back(static_cast<int>(g % 5));
  }
  of.selection.base_kept = on.gpu.upload(base);
  of.selection.bytes_per_base = 7;
  float* cells = of.take_cells();
  cuda_io_ratio(of.rows, CudaCells({{"io_ratio", cells}}));
  const std::vector<float> found = of.download_settings(cells);
  for (std::size_t r = 0; r < on.scores.size(); ++r)
    for (int i = 0; i < kSettings; ++i) {
      const std::size_t g = r / group;
      Kept any = of.kept(g * group, i);
      for (std::size_t h = 1; h < group; ++h) any = either(any, of.kept(g * group + h, i));
      const double bytes = 100.0 * static_cast<double>(g) + 7 * base[g] + 24 * (count(any) - 1);
      const double dense = 2.0 * (on.on.kv.head_dim + on.on.kv.value_dim) * static_cast<double>(any.size());
      EXPECT_EQ(found[r * kSettings + static_cast<std::size_t>(i)], static_cast<float>(bytes / dense))
          << "row " << r << ", setting " << i;
    }
}

class KeptSetCudaOnce : public OnGpu {};

TEST_F(KeptSetCudaOnce, AsManySettingsAsASweepMayHave) {
  expect_kept_set(make_layer({"many_settings", 1, 4, 8, 8, ElementType::float16, {99, 300}}), 1000, true);
}

// Every run of tokens is rounded to a unit of mass, and equal weights are all rounded the same way.
TEST_F(KeptSetCudaOnce, AMillionEqualWeights) {
  for (const bool leveled : {true, false}) {
    AttentionLayer layer = make_layer({"flat", 1, 4, 4, 4, ElementType::float16, {999'999}});
    std::fill_n(layer.k.data(), layer.k.size(), std::byte{0});
    expect_kept_set(std::move(layer), 3, leveled);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, KeptSetCuda, testing::ValuesIn(device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
