// Finds the worst cells of the violating prompts.
#include "analysis/validation/offenders.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <tuple>

#include "analysis/statistics/model_cells.h"

namespace attest {
namespace {

bool is_worse(const Offender& a, const Offender& b) {
  return std::tie(b.badness, a.prompt, a.target, a.layer, a.query_position, a.head) <
         std::tie(a.badness, b.prompt, b.target, b.layer, b.query_position, b.head);
}

/// The last of the settings, safest first, at which the cell meets the target.
std::optional<std::size_t> smallest_enough(std::span<const float> cell, const Target& target,
                                           std::span<const std::size_t> safest_first) {
  if (cell.size() != safest_first.size()) return std::nullopt;  // a metric that no setting changes
  for (std::size_t i = safest_first.size(); i-- > 0;) {
    const auto x = static_cast<double>(cell[safest_first[i]]);
    if (target.is_met_by(target.quantity.deficit ? 1 - x : x)) return safest_first[i];
  }
  return std::nullopt;
}

void shorten(std::vector<Offender>& worst, std::size_t maximum) {
  if (worst.size() <= maximum) return;
  std::nth_element(worst.begin(), worst.begin() + static_cast<std::ptrdiff_t>(maximum), worst.end(), is_worse);
  worst.resize(maximum);
}

/// The heads with the largest parts in a number of the whole model, in each row in which that misses the target. All
/// heads are at one setting.
void add_heads(const Prompt& prompt, const Miss& miss, const Target& target, std::size_t setting, Offenders& found) {
  const ModelMetric& metric = *find_model_metric(target.quantity.metric);
  const std::string name(metric.of_heads);
  const std::optional<PromptCells> rows = read_cells(prompt, target.quantity),
                                   heads = read_cells(prompt, parse_metric(name, name));
  if (!rows || !heads) return;
  for (std::int64_t n = 0; n < rows->num_queries; ++n) {
    const auto row = static_cast<double>(rows->cell(0, n, 0)[setting]);
    if (std::isnan(row) || target.is_met_by(row)) continue;
    std::vector<Offender> parts;
    for (const std::size_t y : heads->rows)
      for (std::int64_t h = 0; h < heads->num_heads; ++h) {
        const auto part = static_cast<double>(heads->cell(y, n, h)[setting]);
        if (!(part > 0)) continue;
        parts.push_back({.prompt = miss.prompt,
                         .target = miss.target,
                         .layer = prompt.of_study().layers[y],
                         .query_position = prompt.of_study().query_positions[static_cast<std::size_t>(n)],
                         .head = static_cast<int>(h),
                         .value = part,
                         .of_row = row,
                         // As if the part alone stood against the target.
                         .badness = target.relative_deficit(target.at_least ? target.value - part : part),
                         .setting = setting});
      }
    found.count += std::ssize(parts);
    shorten(parts, kHeadsOfRow);
    std::ranges::move(parts, std::back_inserter(found.worst));
  }
}

}  // namespace

Offenders find_offenders(const PromptSet& set, std::span<const Target> targets, std::span<const Miss> misses,
                         const std::vector<std::vector<std::size_t>>& settings, std::size_t maximum) {
  Offenders found;
  for (const Miss& miss : misses) {
    const Prompt& prompt = set.prompts[miss.prompt];
    const Target& target = targets[miss.target];
    if (is_of_model(target.quantity.metric)) {
      if (settings.front().front() != kDense) add_heads(prompt, miss, target, settings.front().front(), found);
      continue;
    }
    const std::optional<PromptCells> cells = read_cells(prompt, target.quantity);
    if (!cells) continue;
    for (std::size_t y = 0; y < cells->rows.size(); ++y)
      for (std::int64_t n = 0; n < cells->num_queries; ++n)
        for (std::int64_t h = 0; h < cells->num_heads; ++h) {
          const std::span<const float> cell = cells->cell(cells->rows[y], n, h);
          // Where layers differ in their settings, each prompt has all layers: units_of() refuses others.
          const std::size_t setting = settings[y][static_cast<std::size_t>(h)];
          if (setting == kDense) continue;
          const auto stored = static_cast<double>(cell[cell.size() == 1 ? 0 : setting]);
          const double x = target.quantity.deficit ? 1 - stored : stored;
          if (std::isnan(x) || target.is_met_by(x)) continue;
          const bool of_layer = cells->array.axes == MetricAxes::query_setting;
          ++found.count;
          found.worst.push_back({.prompt = miss.prompt,
                                 .target = miss.target,
                                 .layer = prompt.of_study().layers[cells->rows[y]],
                                 .query_position = prompt.of_study().query_positions[static_cast<std::size_t>(n)],
                                 .head = of_layer ? std::optional<int>() : std::optional(static_cast<int>(h)),
                                 .value = x,
                                 .badness = target.relative_deficit(x),
                                 .setting = setting,
                                 .enough = smallest_enough(cell, target, set.settings)});
          if (found.worst.size() >= 2 * maximum + 1024) shorten(found.worst, maximum);
        }
  }
  shorten(found.worst, maximum);
  std::ranges::sort(found.worst, is_worse);
  return found;
}

std::vector<std::vector<std::size_t>> same_setting(const PromptSet& set, std::size_t setting) {
  return std::vector(set.layers.size(),
                     std::vector<std::size_t>(static_cast<std::size_t>(set.shape.num_query_heads), setting));
}

}  // namespace attest
