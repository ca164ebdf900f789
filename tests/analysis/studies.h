// Helpers for tests of studies: parse selectors as typed on the command line, run a layer, find metrics by name.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "analysis/layer/layer_study.h"
#include "kernels/selectors/registry.h"

namespace attest::test {

/// Parses "NAME" or "NAME:option=value,option=value".
inline std::shared_ptr<Selector> parse_selector(const std::string& text) {
  SelectorSpec spec{.label = text, .name = text.substr(0, text.find(':')), .options = {}};
  for (std::size_t begin = spec.name.size() + 1; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size()), equals = text.find('=', begin);
    spec.options.emplace_back(text.substr(begin, equals - begin), text.substr(equals + 1, end - equals - 1));
    begin = end + 1;
  }
  return make_selector(spec);
}

/// A StudySelector whose setting labels are as they would be typed.
inline StudySelector study_selector(const std::string& label, std::shared_ptr<Selector> selector,
                                    std::vector<Setting> grid) {
  if (selector->setting_kind() == SettingKind::none) grid = {Setting{}};
  std::vector<std::string> labels;
  for (const Setting& setting : grid) labels.push_back(fmt::format("{}{}", setting.value, setting.percent ? "%" : ""));
  if (selector->setting_kind() == SettingKind::none) labels = {""};
  return make_study_selector(label, std::move(selector), std::move(grid), std::move(labels));
}
inline StudySelector study_selector(const std::string& text, std::vector<Setting> grid) {
  return study_selector(text, parse_selector(text), std::move(grid));
}

inline Study study_of(std::vector<StudySelector> selectors) {
  Study study;
  study.selectors = std::move(selectors);
  return study;
}

/// `texts` and the names of all registered selectors that do not occur in them.
inline std::vector<std::string> with_all_other_selectors(std::vector<std::string> texts) {
  for (const SelectorInfo* info : all_selectors())
    if (std::ranges::none_of(texts,
                             [&](const std::string& text) { return text.substr(0, text.find(':')) == info->name; }))
      texts.emplace_back(info->name);
  return texts;
}

/// Calibrates the selectors that learn with the sample.
inline void calibrate_all(const std::vector<StudySelector>& selectors, const AttentionLayer& sample) {
  for (const StudySelector& s : selectors)
    if (!s.selector->calibration_samples().empty()) s.selector->calibrate(sample);
}

inline LayerResults run_layer(const std::vector<StudySelector>& selectors, const AttentionLayer& layer,
                              int threads = 1) {
  const Study study = study_of(selectors);
  return make_cpu_layer_study(study, threads)->run(layer);
}

inline const MetricValues& metric(const std::vector<MetricValues>& metrics, const std::string& name) {
  for (const MetricValues& m : metrics)
    if (m.name == name) return m;
  throw std::runtime_error("no metric " + name);
}

/// Equal values; NaN equals NaN.
inline bool same_values(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size() && a.size() == b.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) return false;
  return a.size() == b.size();
}

/// Every array of two results of one study.
inline void expect_same_values(const LayerResults& a, const LayerResults& b, const std::string& what) {
  ASSERT_FALSE(a.scores.empty() || a.selectors.empty()) << what;
  ASSERT_EQ(a.scores.size(), b.scores.size()) << what;
  ASSERT_EQ(a.selectors.size(), b.selectors.size()) << what;
  for (std::size_t m = 0; m < a.scores.size(); ++m)
    EXPECT_TRUE(same_values(a.scores[m].values, b.scores[m].values)) << what << ", " << a.scores[m].name;
  for (std::size_t s = 0; s < a.selectors.size(); ++s)
    for (std::size_t m = 0; m < a.selectors[s].metrics.size(); ++m)
      EXPECT_TRUE(same_values(a.selectors[s].metrics[m].values, b.selectors[s].metrics[m].values))
          << what << ", selector " << s << ", " << a.selectors[s].metrics[m].name;
}

}  // namespace attest::test
