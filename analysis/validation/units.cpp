// Unit by unit: losses over prompts, and prompts under an assignment.
#include "analysis/validation/units.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "analysis/statistics/model_cells.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/parallel_for.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

CellRange range_of(const Unit& unit, const PromptCells& cells) {
  const bool whole_layer = cells.num_heads == 1 && unit.kv_head < 0;
  return {unit.row, unit.row + 1, whole_layer ? 0 : unit.first_head, whole_layer ? 1 : unit.num_heads};
}

/// One number of a prompt under assignments, from the sums of its units.
class Assembler {
 public:
  Assembler(const PromptCells& cells, const MetricStatistic& quantity, std::optional<double> dense,
            std::span<const Unit> units, std::size_t safest)
      : cells_(cells), quantity_(quantity), dense_(dense), units_(units), safest_(safest) {
    if (quantity.statistic == CellStatistic::quantile) return;
    for (const Unit& unit : units) sums_.push_back(sums_of(cells, range_of(unit, cells)));
  }

  double get(const Assignment& assignment) const {
    if (quantity_.statistic == CellStatistic::quantile) return quantile_of(assignment);
    CellSums total;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (assignment[u] != kDense) {
        total.add(sums_[u][place(assignment[u])]);
      } else if (dense_) {
        const auto x = static_cast<float>(*dense_);
        const std::int64_t count = sums_[u][place(safest_)].count;
        if (count > 0)
          total.add({.sum = *dense_ * static_cast<double>(count), .count = count, .minimum = x, .maximum = x});
      }
    }
    return total.get(quantity_);
  }

 private:
  std::size_t place(std::size_t setting) const { return cells_.num_settings == 1 ? 0 : setting; }

  double quantile_of(const Assignment& assignment) const {
    std::vector<float> gathered;
    for (std::size_t u = 0; u < units_.size(); ++u)
      for_cells(cells_, range_of(units_[u], cells_), [&](std::span<const float> cell) {
        if (assignment[u] != kDense)
          gathered.push_back(cell[place(assignment[u])]);
        else if (dense_ && !std::isnan(cell[place(safest_)]))
          gathered.push_back(static_cast<float>(*dense_));
      });
    return statistic_of(gathered, quantity_);
  }

  const PromptCells& cells_;
  const MetricStatistic& quantity_;
  const std::optional<double> dense_;  ///< as the results store it
  std::span<const Unit> units_;
  const std::size_t safest_;
  std::vector<std::vector<CellSums>> sums_;  ///< [unit][setting]
};

/// As the results would store the metric, not its deficit.
std::optional<double> stored_dense_value(const Target& target) {
  const std::optional<double> value = target.dense_value();
  return value && target.quantity.deficit ? std::optional(1 - *value) : value;
}

}  // namespace

std::string_view name_of(UnitKind kind) { return kind == UnitKind::layer ? "layer" : "kv_head"; }

double heads_of(std::span<const Unit> units) {
  double heads = 0;
  for (const Unit& unit : units) heads += static_cast<double>(unit.num_heads);
  return heads;
}

std::vector<Unit> units_of(const PromptSet& set, UnitKind kind, std::span<const Target> targets) {
  for (const Target& target : targets)
    if (is_of_model(target.quantity.metric))
      throw UsageError(fmt::format("--per {}: '{}' is of all layers together, which no part of the model has",
                                   name_of(kind), target.quantity.metric));
  if (kind == UnitKind::kv_head)
    for (const Target& target : targets)
      if (target.quantity.info.axes == MetricAxes::query_setting)
        throw UsageError(fmt::format("--per kv_head: '{}' is of all heads of a layer together; use --per layer",
                                     target.quantity.metric));
  if (set.in_fewer_layers > 0)
    throw UsageError(fmt::format(
        "--per {}: {} of {} prompts were not studied in all of the layers {}; choose common ones by --layers",
        name_of(kind), set.in_fewer_layers, set.prompts.size(), join(set.layers, ",")));
  std::vector<Unit> units;
  const int group = set.shape.num_query_heads / set.shape.num_kv_heads;
  for (std::size_t row = 0; row < set.layers.size(); ++row) {
    if (kind == UnitKind::layer) units.push_back({row, -1, 0, set.shape.num_query_heads});
    for (int g = 0; kind == UnitKind::kv_head && g < set.shape.num_kv_heads; ++g)
      units.push_back({row, g, std::int64_t{g} * group, group});
  }
  return units;
}

UnitLosses unit_losses(const PromptSet& set, std::span<const std::size_t> prompts, std::span<const Target> targets,
                       std::span<const Unit> units, int threads) {
  const std::size_t num_settings = set.selector.grid.size(), size = units.size() * num_settings;
  UnitLosses losses{num_settings, std::vector<double>(size), std::vector<double>(size), std::vector<double>(size)};
  std::vector<std::size_t> read(size);  // prompts that have a number for the bytes
  const auto share = 1 / static_cast<double>(prompts.size());
  // Prompts in turn and units on threads: sums over prompts then have one order.
  for (const std::size_t p : prompts) {
    const auto add = [&](const MetricStatistic& quantity, auto&& use) {
      const std::optional<PromptCells> cells = read_cells(set.prompts[p], quantity);
      if (!cells) return;
      parallel_for(threads, units.size(), [&](int, std::size_t u) {
        const std::vector<double> values = reduce(*cells, range_of(units[u], *cells), quantity, num_settings);
        for (std::size_t s = 0; s < num_settings; ++s)
          if (!std::isnan(values[s])) use(u * num_settings + s, values[s]);
      });
    };
    for (const Target& target : targets)
      add(target.quantity, [&](std::size_t i, double x) {
        const double loss = target.relative_deficit(x);
        losses.worst[i] = std::max(losses.worst[i], loss);
        losses.mean[i] += loss * share;
      });
    add(mean_io_ratio(), [&](std::size_t i, double x) {
      losses.io[i] += x * share;
      ++read[i];
    });
  }
  // What a prompt does not tell is left out of the mean.
  for (std::size_t i = 0; i < size; ++i)
    if (read[i] > 0 && read[i] < prompts.size())
      losses.io[i] *= static_cast<double>(prompts.size()) / static_cast<double>(read[i]);
  return losses;
}

std::vector<AssembledPrompt> assemble(const PromptSet& set, std::size_t prompt, std::span<const Target> targets,
                                      std::span<const Unit> units, std::span<const Assignment> assignments) {
  std::vector<AssembledPrompt> assembled(assignments.size());
  const auto fill = [&](const MetricStatistic& quantity, std::optional<double> dense, auto&& to) {
    const std::optional<PromptCells> cells = read_cells(set.prompts[prompt], quantity);
    if (!cells) {
      for (AssembledPrompt& one : assembled) to(one) = kNaN;
      return;
    }
    const Assembler assembler(*cells, quantity, dense, units, set.settings.front());
    for (std::size_t a = 0; a < assignments.size(); ++a) to(assembled[a]) = assembler.get(assignments[a]);
  };
  for (AssembledPrompt& one : assembled) one.targets.resize(targets.size());
  for (std::size_t t = 0; t < targets.size(); ++t)
    fill(targets[t].quantity, stored_dense_value(targets[t]),
         [t](AssembledPrompt& one) -> double& { return one.targets[t]; });
  fill(mean_keep_ratio(), 1, [](AssembledPrompt& one) -> double& { return one.keep; });
  fill(mean_io_ratio(), 1, [](AssembledPrompt& one) -> double& { return one.io; });
  return assembled;
}

std::vector<std::vector<std::size_t>> settings_of_heads(const PromptSet& set, std::span<const Unit> units,
                                                        const Assignment& assignment) {
  std::vector<std::vector<std::size_t>> settings(
      set.layers.size(), std::vector<std::size_t>(static_cast<std::size_t>(set.shape.num_query_heads)));
  for (std::size_t u = 0; u < units.size(); ++u)
    std::fill_n(settings[units[u].row].begin() + units[u].first_head, units[u].num_heads, assignment[u]);
  return settings;
}

}  // namespace attest
