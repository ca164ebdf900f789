// Small studies for tests: selectors and grids as typed on the command line, metrics by name.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "analysis/layer/layer_study.h"
#include "kernels/selectors/registry.h"

namespace attest::test {

/// "NAME" or "NAME:option=value,option=value".
inline std::shared_ptr<const Selector> parse_selector(const std::string& text) {
  SelectorSpec spec{.label = text, .name = text.substr(0, text.find(':')), .options = {}};
  for (std::size_t begin = spec.name.size() + 1; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size()), equals = text.find('=', begin);
    spec.options.emplace_back(text.substr(begin, equals - begin), text.substr(equals + 1, end - equals - 1));
    begin = end + 1;
  }
  return make_selector(spec);
}

inline StudySelector study_selector(const std::string& text, std::vector<Setting> grid) {
  std::shared_ptr<const Selector> selector = parse_selector(text);
  if (selector->setting_kind() == SettingKind::none) grid = {Setting{}};
  return {text, std::move(selector), std::move(grid)};
}

inline LayerResults run_study(const std::vector<StudySelector>& selectors, const AttentionLayer& layer,
                              int threads = 1) {
  StudyOptions options;
  options.selectors = selectors;
  return make_cpu_layer_study(options, threads)->run(layer);
}

inline const MetricValues& metric(const std::vector<MetricValues>& metrics, const std::string& name) {
  for (const MetricValues& m : metrics)
    if (m.name == name) return m;
  throw std::runtime_error("no metric " + name);
}

/// The same bits, NaN included.
inline bool same_values(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size() && a.size() == b.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) return false;
  return a.size() == b.size();
}

}  // namespace attest::test
