// Code shared by all selectors: ranking of scores, ascending grids, Selection::reset() and common options.
#include "kernels/selectors/selector.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "kernels/base/not_defined.h"
#include "kernels/rank/sort_descending.h"

namespace attest {

void RankedScores::rank(std::span<const std::int64_t> covered, int group) {
  if (ranked) return;
  order.resize(scores.rows(), scores.columns());
  for (std::int64_t r = 0; r < scores.rows(); ++r) {
    const std::int64_t count = covered[static_cast<std::size_t>(r / group)];
    sort_descending(std::as_const(scores).row(r, count), order.row(r, count));
  }
  ranked = true;
}

AscendingGrid ascending(const Selector& selector, std::span<const Setting> grid, std::int64_t visible, double shift) {
  std::vector<double> resolved;
  for (const Setting& setting : grid) resolved.push_back(selector.resolve(setting, visible));
  AscendingGrid out;
  out.given_index.resize(grid.size());
  std::iota(out.given_index.begin(), out.given_index.end(), 0);
  const auto value = [&](int i) { return resolved[static_cast<std::size_t>(i)]; };
  std::stable_sort(out.given_index.begin(), out.given_index.end(), [&](int a, int b) { return value(a) < value(b); });
  for (int i : out.given_index) out.values.push_back(value(i) + shift);
  return out;
}

std::vector<AscendingGrid> ascending_grids(const Selector& selector, const KvHead& head,
                                           std::span<const Setting> grid) {
  const double shift = selector.setting_shift(head.layer, head.kv_head);
  std::vector<AscendingGrid> grids;
  for (std::int64_t visible : head.visible) grids.push_back(ascending(selector, grid, visible, shift));
  return grids;
}

void Selection::reset(const KvHead& head, std::span<const MetricInfo> own, int num_settings) {
  own_estimate.ranked = stored.ranked = false;
  estimate = nullptr;
  covered.assign(head.visible.begin(), head.visible.end());
  levels.resize(head.rows(), head.length);
  exact = false;
  read_scores = nullptr;
  approximate_values.clear();
  stored_values = nullptr;
  num_approximate.assign(static_cast<std::size_t>(head.num_queries), 0);
  mean_value_share.resize(0, 0);
  io.assign(static_cast<std::size_t>(head.num_queries), {});
  own_metrics.resize(own.size());
  for (std::size_t m = 0; m < own.size(); ++m) {
    RowMatrix<double>& values = own_metrics[m];
    values.resize(head.rows(), own[m].axes == MetricAxes::query_head_setting ? num_settings : 1);
    for (std::int64_t r = 0; r < values.rows(); ++r) std::fill_n(values.row(r), values.columns(), kNaN);
  }
}

double Selector::natural_delta(double, const ScoreTransform&) const { return kNaN; }

void Selector::finish(OptionReader& reader, int default_dense_layers) {
  dense_layers_ = reader.integer("dense_layers", default_dense_layers, 0, 1 << 20,
                                 {"layers at the start of the model with exact attention", "layers"});
  const std::string heads =
      reader.text(kDenseHeadsOption, "", {"KV heads with exact attention: 7:1+5:0 is LAYER:HEAD"});
  if (!parse_dense_heads(heads, dense_heads_))
    throw UsageError(fmt::format("selector '{}': option 'dense_heads' is '{}', expected {}", reader.selector(),
                                 excerpt(heads), kDenseHeadsForm));
  finish(reader);
}

void Selector::finish(OptionReader& reader) {
  reader.finish();
  name_ = reader.selector();
  options_ = reader.resolved();
}

void Selector::finish_with_settings_file(OptionReader& reader, SettingKind kind, std::string_view condition) {
  const std::string path = reader.text(
      "settings_file", "",
      {"a recommendation (JSON): a KV head's delta is its own there plus --delta, which then defaults to 0"});
  finish(reader, 0);
  if (path.empty()) return;
  if (kind != SettingKind::delta)
    throw UsageError(
        fmt::format("selector '{}': option 'settings_file' needs {}: its file has deltas, and here the setting is a {}",
                    name_, condition, name_of(kind)));
  settings_file_ = read_settings_file(path);
  check_settings_file();
}

void Selector::check_settings_file() const {
  const SettingsFile& file = *settings_file_;
  if (!file.selector.empty() && file.selector != name_)
    throw UsageError(
        fmt::format("selector '{}': {} has settings for selector '{}'", name_, file.path, excerpt(file.selector)));
  for (const auto& [name, value] : file.options) {
    if (name == "settings_file") continue;
    const auto own = std::ranges::find(options_, name, &OptionValue::name);
    if (own == options_.end())
      throw UsageError(
          fmt::format("selector '{}': {} was made with option '{}' = '{}', which the selector does not have", name_,
                      file.path, excerpt(name), excerpt(value)));
    if (own->value != value)
      throw UsageError(fmt::format("selector '{}': option '{}' is '{}', and {} was made with '{}'", name_, name,
                                   own->value, file.path, excerpt(value)));
  }
  for (const OptionValue& own : options_)
    if (own.name == "cache" && !file.options.empty() &&
        std::ranges::none_of(file.options, [](const auto& option) { return option.first == "cache"; }))
      throw UsageError(fmt::format("selector '{}': option 'cache' is '{}', and {} was made without it", name_,
                                   own.value, file.path));
}

std::vector<std::string> Selector::input_files() const {
  return settings_file_ ? std::vector{settings_file_->path} : std::vector<std::string>();
}

void Selector::check_layer(int layer, int num_kv_heads) const {
  for (const DenseHead& head : dense_heads_)
    if (head.layer == layer && head.kv_head >= num_kv_heads)
      throw UsageError(fmt::format("selector '{}': option 'dense_heads' has {}:{}, and layer {} has {} KV head{}",
                                   name_, layer, head.kv_head, layer, num_kv_heads, num_kv_heads == 1 ? "" : "s"));
}

bool Selector::is_dense(int layer, int kv_head) const {
  return layer < dense_layers_ || more_dense_layers_.contains(layer) || dense_heads_.contains({layer, kv_head}) ||
         (settings_file_ && settings_file_->settings.at(layer, kv_head).dense);
}

bool Selector::is_dense_layer(int layer, int num_kv_heads) const {
  for (int head = 0; head < num_kv_heads; ++head)
    if (!is_dense(layer, head)) return false;
  return true;
}

double Selector::setting_shift(int layer, int kv_head) const {
  if (!settings_file_) return 0;
  return is_dense(layer, kv_head) ? kNaN : settings_file_->settings.at(layer, kv_head).value;
}

}  // namespace attest
