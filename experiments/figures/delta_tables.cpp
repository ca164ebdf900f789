// Tables of delta validation: quality by delta and layer, smallest deltas by layer and head.
#include "experiments/figures/delta_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"
#include "plots/figure.h"

namespace attest {
namespace {

/// A quantity of the figure, and how it is taken from cells.
struct Quantity {
  const char* name;  ///< in the csv
  double (*value)(const DeltaQuality&);
};
constexpr std::array kQuantities = {
    Quantity{"recall_mean", [](const DeltaQuality& q) { return q.recall.mean(); }},
    Quantity{"recall_min", [](const DeltaQuality& q) { return q.recall.minimum(); }},
    Quantity{"lse_error_max", [](const DeltaQuality& q) { return q.lse_error.maximum(); }},
    Quantity{"lse_error_mean", [](const DeltaQuality& q) { return q.lse_error.mean(); }},
    Quantity{"keep_ratio", [](const DeltaQuality& q) { return q.keep.mean(); }},
    Quantity{"io_ratio", [](const DeltaQuality& q) { return q.io.mean(); }},
    Quantity{"salient_ratio", [](const DeltaQuality& q) { return q.salient.mean(); }}};

double number_of(const std::optional<int>& index) { return index ? static_cast<double>(*index) : kNaN; }

/// Where the column of a heat map begins or ends: half way to its neighbour.
double edge(const DeltaValidation& v, std::size_t i, bool upper) {
  const double here = v.delta(i);
  const auto step = [&](std::size_t low, std::size_t high) { return (v.delta(high) - v.delta(low)) / 2; };
  const bool below = i > 0, above = i + 1 < v.settings.size() && std::isfinite(v.delta(i + 1));
  if (!std::isfinite(here)) return kNaN;
  if (upper) return here + (above ? step(i, i + 1) : below ? step(i - 1, i) : 0.5);
  return here - (below ? step(i - 1, i) : above ? step(i, i + 1) : 0.5);
}

}  // namespace

std::string label_of(const DeltaValidation& v) { return display_name(v.selector->group.label); }
std::string model_curve(const DeltaValidation& v) { return curve_name(v.selector->group.label); }
std::string layers_curve(const DeltaValidation& v) { return model_curve(v) + " by layer"; }
std::string target_curve(const DeltaValidation& v, const QualityTarget& target) {
  return fmt::format("{} {}", model_curve(v), target.name);
}

Table quality_table(const std::vector<DeltaValidation>& validations) {
  struct Row {
    const DeltaValidation* v;
    const DeltaCurve* curve;
    std::size_t i;
    const DeltaQuality& quality() const { return curve->points[i]; }
  };
  std::vector<Row> rows;
  for (const DeltaValidation& v : validations) {
    for (std::size_t i = 0; i < v.settings.size(); ++i) rows.push_back({&v, &v.model, i});
    for (const DeltaCurve& layer : v.layers)
      for (std::size_t i = 0; i < v.settings.size(); ++i) rows.push_back({&v, &layer, i});
  }
  std::vector<ColumnOf<Row>> columns = {
      {{kCurveColumn, kText}, [](const Row& r) { return r.curve->layer ? layers_curve(*r.v) : model_curve(*r.v); }},
      {{"label", kText}, [](const Row& r) { return label_of(*r.v); }},
      {{"delta_unit", kText}, [](const Row& r) { return r.v->selector->option("delta_unit"); }},
      {{"layer"}, [](const Row& r) { return number_of(r.curve->layer); }},
      {{"delta"}, [](const Row& r) { return r.v->delta(r.i); }},
      {{"delta_low"}, [](const Row& r) { return edge(*r.v, r.i, false); }},
      {{"delta_high"}, [](const Row& r) { return edge(*r.v, r.i, true); }}};
  for (const Quantity& quantity : kQuantities) {
    columns.push_back({{quantity.name}, [&quantity](const Row& r) { return quantity.value(r.quality()); }});
    for (const bool high : {false, true})
      columns.push_back(
          {{fmt::format("{}_layers_{}", quantity.name, high ? "high" : "low")}, [&quantity, high](const Row& r) {
             if (r.curve->layer) return kNaN;
             CellStatistics layers;
             for (const DeltaCurve& layer : r.v->layers) layers.add(quantity.value(layer.points[r.i]));
             return high ? layers.maximum() : layers.minimum();
           }});
  }
  columns.push_back({{"cells"}, [](const Row& r) { return static_cast<double>(r.quality().recall.count); }});
  return make_table<Row>(rows, columns);
}

Table target_table(const std::vector<DeltaValidation>& validations, const std::string& model) {
  struct Row {
    const DeltaValidation* v;
    const DeltaCurve* curve;
    const QualityTarget* target;
    std::optional<std::size_t> met;
  };
  std::vector<Row> rows;
  for (const DeltaValidation& v : validations)
    for (const QualityTarget& target : kQualityTargets) {
      const auto add = [&](const DeltaCurve& curve) {
        rows.push_back({&v, &curve, &target, v.smallest_delta(curve, target)});
      };
      add(v.model);
      std::ranges::for_each(v.layers, add);
      std::ranges::for_each(v.heads, add);
    }
  return make_table<Row>(
      rows,
      {{{kCurveColumn, kText},
        [](const Row& r) {
          return target_curve(*r.v, *r.target) + (r.curve->head ? "" : r.curve->layer ? " of layers" : " of the model");
        }},
       {{"label", kText}, [](const Row& r) { return label_of(*r.v); }},
       {{"delta_unit", kText}, [](const Row& r) { return r.v->selector->option("delta_unit"); }},
       {{"model", kText}, [&](const Row&) { return display_name(model); }},
       {{"layer"}, [](const Row& r) { return number_of(r.curve->layer); }},
       {{"head"}, [](const Row& r) { return number_of(r.curve->head); }},
       {{"target", kText}, [](const Row& r) { return r.target->name; }},
       {{"delta"}, [](const Row& r) { return r.met ? r.v->delta(*r.met) : kNaN; }},
       {{"keep_ratio"}, [](const Row& r) { return r.met ? r.curve->points[*r.met].keep.mean() : kNaN; }},
       {{"io_ratio"}, [](const Row& r) { return r.met ? r.curve->points[*r.met].io.mean() : kNaN; }}});
}

Table printed_targets(const std::vector<DeltaValidation>& validations) {
  struct Row {
    const DeltaValidation* v;
    const DeltaCurve* curve;
  };
  std::vector<Row> rows;
  for (const DeltaValidation& v : validations) rows.push_back({&v, &v.model});
  for (const DeltaCurve& layer : validations.front().layers) rows.push_back({&validations.front(), &layer});
  std::vector<ColumnOf<Row>> columns = {
      {{"label", kText, "selector"}, [](const Row& r) { return label_of(*r.v); }},
      {{.name = "layer", .decimals = 0}, [](const Row& r) { return number_of(r.curve->layer); }}};
  for (const QualityTarget& target : kQualityTargets)
    columns.push_back({{.name = target.name, .heading = target.heading, .decimals = 1}, [&target](const Row& r) {
                         const std::optional<std::size_t> met = r.v->smallest_delta(*r.curve, target);
                         return met ? r.v->delta(*met) : kNaN;
                       }});
  return make_table<Row>(rows, columns);
}

}  // namespace attest
