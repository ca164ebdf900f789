// Table and figure "Formats of a KV cache": what they lose against bytes per token, by layer, keys and values apart.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/figures/ladder_rungs.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace kv_formats_figure {

constexpr std::string_view kNative = "native";

constexpr std::array kMeasures = {kRecallMeasure, kLseErrorMeasure};

/// A format over some cells.
struct Format {
  const PooledSelector* selector = nullptr;
  double layer = kNaN;  ///< NaN: all that are compared
  double bytes = 0;     ///< per token and KV head, of keys and values
  std::array<Ladder, kMeasures.size()> ladders{};

  const std::string& label() const { return selector->group.label; }
  /// How keys or values are stored: "fp8_e4m3, unit"; empty if they are left as they are.
  std::string side(const char* name) const {
    const std::string format = selector->option(name);
    if (format == kNative) return {};
    const bool scaled = format.starts_with("fp8_e") || format.starts_with("nvfp4");
    const bool plain = format.starts_with("q") && selector->option("rotate") == "none";
    return format + (scaled ? ", " + selector->option(std::string(name) + "_scale") : "") +
           (plain ? ", not rotated" : "");
  }
};

/// A rung of a ladder, which is a point of the figure.
struct Row {
  const Format* format;
  const Rung* rung;
};

/// Bytes of a token in 16 bit, per KV head.
double dense_bytes(const ModelStudy& study) {
  const AttentionShape& shape = study.samples().front().study_dump().shape;
  return 2.0 * (shape.head_dim + (shape.values_in_keys != 0 ? 0 : shape.value_dim));
}

Format format_of(const PooledSelector& selector, double layer, double dense, std::span<const SampleCells> io,
                 const std::array<std::vector<SampleCells>, kMeasures.size()>& cells) {
  Format format{&selector, layer, dense * describe(io).mean};
  for (std::size_t m = 0; m < kMeasures.size(); ++m) format.ladders[m] = ladder(cells[m], kMeasures[m].badness);
  return format;
}

/// Each format over all compared layers together, then over each layer.
std::vector<Format> formats_of(const ModelStudy& study, const std::set<int>& except) {
  std::vector<Format> formats, by_layer;
  const double dense = dense_bytes(study);
  for (const PooledSelector& selector : study.selectors()) {
    if (selector.group.name != "kv_cache") continue;
    const std::vector<SampleCells> io = study.cells(selector, "io_ratio", except).front();
    std::array<std::vector<SampleCells>, kMeasures.size()> cells, of;
    for (std::size_t m = 0; m < kMeasures.size(); ++m)
      cells[m] = study.cells(selector, kMeasures[m].metric, except).front();
    formats.push_back(format_of(selector, kNaN, dense, io, cells));
    for (const int layer : layers_of(cells[0])) {
      for (std::size_t m = 0; m < kMeasures.size(); ++m) of[m] = attest::of_layer(cells[m], layer);
      by_layer.push_back(format_of(selector, layer, dense, attest::of_layer(io, layer), of));
    }
  }
  formats.insert(formats.end(), by_layer.begin(), by_layer.end());
  std::erase_if(formats, [](const Format& format) { return format.ladders[0].count == 0; });
  return formats;
}

std::string curve_of(const Format& format) {
  return curve_name(format.label()) + (std::isnan(format.layer) ? "" : " by layer");
}

Table figure_table(const std::vector<Format>& formats) {
  std::vector<Row> rows;
  for (const Format& format : formats)
    for (const Rung& rung : kRungs)
      if (rung.value != &Ladder::median) rows.push_back({&format, &rung});
  std::vector<ColumnOf<Row>> columns = {
      // Layers are drawn at one rung.
      {{kCurveColumn, kText},
       [](const Row& r) {
         const bool drawn = std::isnan(r.format->layer) || r.rung->value == &Ladder::p99;
         return curve_of(*r.format) + (drawn ? "" : fmt::format(", {}", r.rung->name));
       }},
      {{"label", kText}, [](const Row& r) { return display_name(r.format->label()); }},
      {{"k", kText}, [](const Row& r) { return r.format->side("k"); }},
      {{"v", kText}, [](const Row& r) { return r.format->side("v"); }},
      {{"layer"}, [](const Row& r) { return r.format->layer; }},
      {{"rung", kText}, [](const Row& r) { return std::string(r.rung->name); }},
      {{"bytes"}, [](const Row& r) { return r.format->bytes; }}};
  for (std::size_t m = 0; m < kMeasures.size(); ++m)
    columns.push_back({{kMeasures[m].name}, [m](const Row& r) { return r.format->ladders[m].*r.rung->value; }});
  columns.push_back({{"cells"}, [](const Row& r) { return static_cast<double>(r.format->ladders[0].count); }});
  return make_table<Row>(rows, columns);
}

/// The rows of a format in which keys alone, values alone, or both are stored.
struct Apart {
  std::string format, title;  ///< the title has the first label where a row before it has the same format
  const Format *keys = nullptr, *values = nullptr, *both = nullptr;
};

/// The rows, in the order of the study. A selector with different formats of keys and values has a row of its own, and
/// so have those that differ in other options: what they lose is not that of keys or values alone.
std::vector<Apart> apart(const std::vector<Format>& formats) {
  std::vector<Apart> rows;
  for (const Format& format : formats) {
    if (!std::isnan(format.layer)) continue;
    const std::string k = format.side("k"), v = format.side("v");
    if (k.empty() && v.empty()) continue;
    const std::string name = k.empty() ? v : v.empty() || k == v ? k : k + " / " + v;
    auto row = std::ranges::find_if(rows, [&](const Apart& r) {
      const Format* const first = r.keys != nullptr ? r.keys : r.values != nullptr ? r.values : r.both;
      return r.format == name && agree_but_in(*first->selector, *format.selector,
                                              {"k", "v", "k_scale", "v_scale", "rotate", "dense_layers"});
    });
    if (row == rows.end()) {
      const bool is_new = std::ranges::count(rows, name, &Apart::format) == 0;
      row = rows.insert(rows.end(),
                        {.format = name, .title = is_new ? name : fmt::format("{} ({})", name, format.label())});
    }
    const Format*& place = k.empty() ? row->values : v.empty() ? row->keys : row->both;
    if (place == nullptr) place = &format;
  }
  return rows;
}

Table apart_table(const std::vector<Format>& formats) {
  std::vector<ColumnOf<Apart>> columns = {
      {{"format", kText, "format"}, [](const Apart& r) { return display_name(r.title); }}};
  struct Side {
    const char *name, *title;
    const Format* Apart::*of;
  };
  for (const Side side :
       {Side{"k", "K", &Apart::keys}, Side{"v", "V", &Apart::values}, Side{"both", "both", &Apart::both}}) {
    const auto add = [&](const char* name, const std::string& title, int digits, auto&& get) {
      columns.push_back(
          {{fmt::format("{}_{}", side.name, name), kNumber, fmt::format("{}: {}", side.title, title), digits},
           [of = side.of, get](const Apart& r) { return r.*of == nullptr ? kNaN : get(*(r.*of)); }});
    };
    add("bytes", "bytes per token", 1, [](const Format& f) { return f.bytes; });
    for (std::size_t m = 0; m < kMeasures.size(); ++m)
      for (const Rung rung : {kRungs[0], kRungs[3], kRungs[5]})
        add(fmt::format("{}_{}", kMeasures[m].name, rung.name).c_str(),
            fmt::format("{}, {}", kMeasures[m].title, rung.name), 6,
            [m, value = rung.value](const Format& f) { return f.ladders[m].*value; });
  }
  return make_table<Apart>(apart(formats), columns);
}

std::vector<Panel> panels_of(const ModelStudy& study, const std::vector<Format>& formats,
                             const ExperimentOptions& options) {
  constexpr double kMin = 1e-6;
  std::vector<Panel> panels;
  for (std::size_t m = 0; m < kMeasures.size(); ++m)
    for (const bool layers : {false, true}) {
      Panel panel{
          .title = fmt::format("({}){}", char('a' + panels.size()), layers ? " 99 % by layer" : ""),
          .x = layers ? Axis{.label = "layer", .whole_numbers = true} : Axis{.label = "bytes per token and KV head"},
          .y = {.label = kMeasures[m].title, .scale = options.linear_axes ? Scale::linear : Scale::logarithmic},
          .series = {}};
      if (!options.linear_axes) panel.y.floor = kMin;
      for (const Format& format : formats)
        if (std::isnan(format.layer))
          panel.series.push_back({.curve = curve_of(format) + (layers ? " by layer" : ""),
                                  .title = display_name(format.label()),
                                  .x = layers ? "layer" : "bytes",
                                  .y = kMeasures[m].name,
                                  .style = study.style(*format.selector)});
      panels.push_back(std::move(panel));
    }
  return panels;
}

/// The recall deficit by which formats are compared: that which 1 % of the cells exceed, or that of the worst cell
/// where some format has too few cells.
struct Tail {
  bool worst = false;
  double of(const Format& format) const { return worst ? format.ladders[0].worst : format.ladders[0].p99; }
};
Tail tail_of(std::span<const Format* const> formats) {
  return {std::ranges::any_of(formats, [](const Format* format) { return format->ladders[0].count < kMinCellsP99; })};
}

/// Says whether keys or values cost more recall, if the digits that are shown tell.
Finding apart_finding(const Apart& row) {
  const Tail tail = tail_of(std::array{row.keys, row.values});
  const bool keys = tail.of(*row.keys) > tail.of(*row.values);
  const std::string more = fmt::format("{:.3g}", tail.of(keys ? *row.keys : *row.values)),
                    less = fmt::format("{:.3g}", tail.of(keys ? *row.values : *row.keys));
  const char* const of = tail.worst ? "in the worst cell" : "or more in 1 % of the cells";
  return {.text = more == less ? fmt::format("{}: keys cost as much recall as values do (a deficit of {} {}).",
                                             display_name(row.title), more, of)
                               : fmt::format("{}: {} cost more recall than {} do (a deficit of {} against {} {}).",
                                             display_name(row.title), keys ? "keys" : "values",
                                             keys ? "values" : "keys", more, less, of),
          .number = more};
}

std::vector<Finding> findings_of(const ModelStudy& study, const std::vector<Format>& formats) {
  std::vector<Finding> findings;
  constexpr double kSerious = 0.1;
  for (const Format& format : formats) {
    if (!std::isnan(format.layer)) continue;
    std::vector<const Format*> layers;
    for (const Format& other : formats)
      if (!std::isnan(other.layer) && other.selector == format.selector) layers.push_back(&other);
    const Tail of_layers = tail_of(layers), of_all = tail_of(std::array{&format});
    const Format& worst =
        **std::ranges::max_element(layers, {}, [&](const Format* layer) { return of_layers.of(*layer); });
    const Ladder &recall = format.ladders[0], &lse = format.ladders[1];
    findings.push_back(
        {.text = fmt::format(
             "{}, {:.4g} bytes per token and KV head: the recall deficit is {:.3g} in the mean{} and {:.3g} "
             "in the worst of {} cells, the LSE error {:.3g} in the mean and {:.3g} nats in the worst; the "
             "worst layer is {} ({:.3g} {}).",
             display_name(format.label()), format.bytes, recall.mean,
             of_all.worst ? "" : fmt::format(", {:.3g} or more in 1 %", recall.p99), recall.worst, recall.count,
             lse.mean, lse.worst, worst.layer, of_layers.of(worst),
             of_layers.worst ? "in its worst cell" : "or more in 1 %"),
         .severity = of_all.of(format) > kSerious ? Severity::warning : Severity::note,
         .number = fmt::format("{:.3g}", of_all.of(format)),
         .place = MapPlace{.metric = "recall",
                           .selector = format.label(),
                           .setting = {},
                           .statistic = "worst",
                           .layer = static_cast<int>(worst.layer)}});
  }
  for (const Apart& row : apart(formats))
    if (row.keys && row.values && study.have_same_prompts(*row.keys->selector, *row.values->selector))
      findings.push_back(apart_finding(row));
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const std::string run =
      "--selector kv_fp8=kv_cache:k=fp8_e4m3,v=fp8_e4m3 --selector k_fp8=kv_cache:k=fp8_e4m3 "
      "--selector v_fp8=kv_cache:v=fp8_e4m3";
  std::vector<std::string> labels;
  for (const PooledSelector& selector : study.selectors())
    if (selector.group.name == "kv_cache") labels.push_back(selector.group.label);
  if (labels.empty()) return Unsupported{"needs kv_cache", run};
  const std::set<int> dense = study.dense_layers(labels);
  const std::vector<Format> formats = formats_of(study, dense);
  if (formats.empty()) return Unsupported{"every layer stays in 16 bit in one of the formats", run};
  std::vector<std::int64_t> counts;
  for (const Format& format : formats)
    if (std::isnan(format.layer)) counts.push_back(format.ladders[0].count);
  const std::string source =
      fmt::format("{}; {} (layer, query, head).{}", study.source(), cells_in_words(counts), without_dense(dense));
  ExperimentResult result{.findings = findings_of(study, formats)};
  result.figures.push_back(
      {.name = "kv_formats",
       .caption =
           fmt::format("Formats of a KV cache: recall deficit (1 - recall) and LSE error against bytes per token "
                       "and KV head, from the mean over the 95, 99 and 99.9 % quantiles up to the worst cell; beside "
                       "it the 99 % quantile by layer. Below 1e-6 a number is drawn there; {}",
                       source),
       .data = figure_table(formats),
       .columns = 2,
       .panels = panels_of(study, formats, options)});
  result.tables.push_back({"kv_formats_table",
                           fmt::format("Formats of a KV cache, with keys alone, values alone, and both stored in them: "
                                       "mean, 99 % quantile and worst cell; {}",
                                       source),
                           apart_table(formats)});
  return result;
}

}  // namespace kv_formats_figure

Experiment kv_formats_experiment() {
  return {.name = "kv_formats",
          .paper = "Beside the paper: formats of a KV cache, keys and values apart",
          .needs = "kv_cache; for keys and values apart also with k or v alone",
          .make = kv_formats_figure::make};
}

}  // namespace attest
