// Time of a decode call against the length, beside its floor and the dense baselines.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "dumps/base/join.h"
#include "experiments/bench/kernel/curve_style.h"
#include "experiments/bench/kernel/kernel_experiments.h"
#include "experiments/bench/kernel/latency_row.h"
#include "experiments/bench/kernel/point_columns.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace kernel_latency_figure {

constexpr const char* kOptions =
    "--only kernel_latency --lengths 4K..256K --batch 1,8 --delta 5,7 --keep 2%,6%,27%,100% -o FILE";

using Rows = std::vector<LatencyRow>;

/// The columns that the csv of a figure and the printed table share.
std::vector<ColumnOf<LatencyRow>> columns_of_times() {
  using R = LatencyRow;
  std::vector<ColumnOf<R>> columns;
  for (const char* name : {"batch", "length", "layers", "keep_ratio", "io_ratio", "us", "us_low", "us_high",
                           "replay_low", "replay_high", "floor_us", "floor_ratio"})
    columns.push_back(of_point<R>(name));
  columns.push_back(
      {{.name = "over_flash", .heading = "over SDPA flash", .decimals = 2}, [](const R& r) { return r.over_flash; }});
  columns.push_back(
      {{.name = "over_cudnn", .heading = "over SDPA cuDNN", .decimals = 2}, [](const R& r) { return r.over_cudnn; }});
  columns.push_back(of_point<R>("io_limit"));
  columns.push_back({{.name = "paper_rtx4090_us", .heading = "paper, RTX 4090: us", .decimals = 0},
                     [](const R& r) { return paper_microseconds(r.point); }});
  columns.push_back(
      {{.name = "paper_rtx4090_over_flash", .heading = "paper, RTX 4090: over FlashAttention-2", .decimals = 2},
       [](const R& r) { return paper_speed_up(r.point); }});
  return columns;
}

Table data_of(const Rows& rows) {
  using R = LatencyRow;
  std::vector<ColumnOf<R>> columns = {
      {{kCurveColumn, kText}, [](const R& r) { return r.curve(); }},
      {{"method", kText}, [](const R& r) { return r.point.method; }},
      {{"setting", kText}, [](const R& r) { return r.point.setting.kind; }},
      {{"value"}, [](const R& r) { return r.point.setting.kind == "none" ? kNotMeasured : r.point.setting.value; }}};
  std::ranges::move(columns_of_times(), std::back_inserter(columns));
  return make_table(rows, columns);
}

Table times_of(const Rows& rows) {
  std::vector<ColumnOf<LatencyRow>> columns = columns_of_times();
  columns.insert(columns.begin(), {{"method", kText}, [](const LatencyRow& r) { return curve_text(r.point); }});
  return make_table(rows, columns);
}

Table summary_of(const std::vector<LatencySummary>& rows) {
  using R = LatencySummary;
  return make_table<R>(
      rows, {{{"method", kText}, [](const R& r) { return curve_text(r.first); }},
             {{.name = "batch", .decimals = 0}, [](const R& r) { return static_cast<double>(r.first.batch); }},
             {{.name = "lengths", .decimals = 0}, [](const R& r) { return static_cast<double>(r.lengths); }},
             {{.name = "mean_over_flash", .heading = "mean over SDPA flash", .decimals = 2},
              [](const R& r) { return r.flash.mean; }},
             {{.name = "peak_over_flash", .heading = "peak", .decimals = 2}, [](const R& r) { return r.flash.peak; }},
             {{.name = "peak_length_flash", .heading = "at length", .decimals = 0},
              [](const R& r) { return r.flash.length; }},
             {{.name = "io_limit_flash", .heading = "1/io there", .decimals = 2},
              [](const R& r) { return r.flash.io_limit; }},
             {{.name = "mean_over_cudnn", .heading = "mean over SDPA cuDNN", .decimals = 2},
              [](const R& r) { return r.cudnn.mean; }},
             {{.name = "peak_over_cudnn", .heading = "peak", .decimals = 2}, [](const R& r) { return r.cudnn.peak; }},
             {{.name = "peak_length_cudnn", .heading = "at length", .decimals = 0},
              [](const R& r) { return r.cudnn.length; }},
             {{.name = "io_limit_cudnn", .heading = "1/io there", .decimals = 2},
              [](const R& r) { return r.cudnn.io_limit; }},
             {{.name = "floor_ratio_least", .heading = "time / floor, least", .decimals = 2},
              [](const R& r) { return r.floor_ratio_least; }},
             {{.name = "floor_ratio_largest", .heading = "largest", .decimals = 2},
              [](const R& r) { return r.floor_ratio_largest; }},
             {{.name = "paper_rtx4090_mean", .heading = "paper, RTX 4090: mean over FlashAttention-2", .decimals = 2},
              [](const R& r) { return paper_mean_speed_up(r.first); }},
             {{.name = "paper_rtx4090_peak", .heading = "paper, RTX 4090: peak", .decimals = 2},
              [](const R& r) { return paper_peak_speed_up(r.first); }}});
}

/// The axis of lengths has the same ends in all panels of all benches.
Axis length_axis(const KernelStudy& study, const ExperimentOptions& options) {
  const auto [shortest, longest] = study.lengths();
  const auto low = static_cast<double>(shortest), high = static_cast<double>(longest);
  constexpr double kKibi = 1024, kMargin = 1.3;
  if (options.linear_axes)
    return {.label = "length (K tokens)", .factor = 1 / kKibi, .low = 0, .high = 1.05 * high / kKibi};
  return {.label = "length (tokens)", .scale = Scale::binary, .low = low / kMargin, .high = high * kMargin};
}

Axis y_axis(const std::string& label, const ExperimentOptions& options) {
  return {.label = label, .scale = options.linear_axes ? Scale::linear : Scale::logarithmic};
}

/// A panel of column `y`; `limit`, a column, is drawn as thin dashes without an entry in the legend.
Panel panel_of(const KernelStudy& study, const Rows& rows, int batch, const std::string& y, const std::string& limit,
               const std::function<bool(const LatencyRow&)>& has_limit) {
  Panel panel;
  std::set<std::string> drawn;
  for (const LatencyRow& row : rows) {
    if (row.point.batch != batch || !drawn.insert(row.curve()).second) continue;
    LineStyle style = study.style(row.point);
    if (has_limit(row)) {
      panel.series.push_back({.curve = row.curve(),
                              .title = {},
                              .x = "length",
                              .y = limit,
                              .style = limit_style(style),
                              .mark = Mark::plain});
    }
    Series series{.curve = row.curve(), .title = curve_text(row.point), .x = "length", .y = y, .style = style};
    const bool several = std::ranges::any_of(
        rows, [&](const LatencyRow& r) { return r.curve() == row.curve() && r.point.measurements > 1; });
    if (y == "us" && several) series.bands = {{"us_low", "us_high", 0.18}};
    panel.series.push_back(std::move(series));
  }
  return panel;
}

/// The calls of FFD that one figure shows: those at set deltas, or those at set shares of the tokens. A figure of both
/// would have too many curves. The other methods are in each figure.
struct Part {
  bool keeps = false;
  std::string suffix;  ///< of the figure's name
  std::string words;   ///< of its caption
};

std::vector<Part> parts_of(const Rows& rows) {
  const auto has = [&](bool keeps) {
    return std::ranges::any_of(rows, [&](const LatencyRow& r) {
      return r.point.method == "ffd" && (r.point.setting.kind == "keep") == keeps;
    });
  };
  std::vector<Part> parts;
  if (has(false)) parts.push_back({.keeps = false, .suffix = "", .words = "at set deltas"});
  if (has(true))
    parts.push_back({.keeps = true, .suffix = parts.empty() ? "" : "_keep", .words = "at set shares of kept tokens"});
  return parts;
}

Rows rows_of(const Part& part, const Rows& rows) {
  Rows shown;
  std::ranges::copy_if(rows, std::back_inserter(shown), [&](const LatencyRow& r) {
    return r.point.method != "ffd" || (r.point.setting.kind == "keep") == part.keeps;
  });
  return shown;
}

/// The batch sizes that are drawn: a page has no room for many.
std::set<int> batches_of(const Rows& rows) {
  constexpr std::size_t kMax = 6;
  std::set<int> batches;
  for (const LatencyRow& row : rows)  // in ascending order
    if (batches.size() < kMax) batches.insert(row.point.batch);
  return batches;
}

Figure latency_figure(const KernelStudy& study, const Part& part, const Rows& all, const ExperimentOptions& options) {
  const Rows rows = rows_of(part, all);
  Figure figure{.name = "kernel_latency" + part.suffix,
                .note = "thin dashes: floor, bytes that must move / copy bandwidth",
                .data = data_of(all)};
  for (int batch : batches_of(rows)) {
    Panel panel =
        panel_of(study, rows, batch, "us", "floor_us", [](const LatencyRow& r) { return r.point.method == "ffd"; });
    panel.title = panel_title(figure.panels.size(), fmt::format("batch {}", batch));
    panel.x = length_axis(study, options);
    panel.y = y_axis("time of a layer (\u00b5s)", options);
    figure.panels.push_back(std::move(panel));
  }
  figure.columns = std::min(2, static_cast<int>(figure.panels.size()));
  figure.panel_height_in = 1.6;
  figure.caption = fmt::format(
      "Time of one decode call of a layer against the length, FFD {}; {}. Medians of replays of a CUDA graph; where "
      "several layers were measured, their mean, and a band from the least to the largest layer. The floor is the time "
      "in which a copy moves as many bytes as the method must.",
      part.words, study.source());
  return figure;
}

Figure speed_up_figure(const KernelStudy& study, const Part& part, const Rows& all, const ExperimentOptions& options) {
  const Rows rows = rows_of(part, all);
  Figure figure{.name = "kernel_latency_speedup" + part.suffix,
                .note = "thin dashes: 1/io, the most that reading less can give",
                .data = data_of(all)};
  Rows ours;
  std::ranges::copy_if(rows, std::back_inserter(ours), [](const LatencyRow& r) { return !r.is_baseline(); });
  std::vector<const LatencyBaseline*> baselines;
  for (const LatencyBaseline& baseline : kBaselines)
    if (std::ranges::any_of(ours, [&](const LatencyRow& r) { return !std::isnan(r.*baseline.over); }))
      baselines.push_back(&baseline);
  const std::set<int> batches = batches_of(rows);
  for (int batch : batches) {  // with its baselines side by side
    for (const LatencyBaseline* baseline : baselines) {
      Panel panel = panel_of(study, ours, batch, baseline->column, "io_limit", [](const LatencyRow&) { return true; });
      panel.title = panel_title(figure.panels.size(), fmt::format("batch {}", batch));
      panel.x = length_axis(study, options);
      panel.y = y_axis(fmt::format("speed-up over {}", baseline->axis), options);
      panel.references = {{.at = 1}};
      figure.panels.push_back(std::move(panel));
    }
  }
  figure.columns = std::min(2, static_cast<int>(figure.panels.size()));
  figure.panel_height_in = 1.4;
  figure.caption = fmt::format(
      "Speed-up over dense attention of the same inputs, FFD {}; {}. Ratios of the mean times over layers. 1/io is the "
      "dense 16-bit bytes over those of the method: a speed-up above it cannot come from reading less.",
      part.words, study.source());
  return figure;
}

std::variant<ExperimentResult, Unsupported> make(const KernelStudy& study, const ExperimentOptions& options) {
  const Rows all = latency_rows(study);
  Rows rows;  // without calls that are given a deal, which are twice as many curves
  std::ranges::copy_if(all, std::back_inserter(rows), [](const LatencyRow& r) { return !r.point.is_dealt(); });
  if (std::ranges::none_of(rows, [](const LatencyRow& r) { return !r.is_baseline(); }))
    return Unsupported{"needs decode calls of ffd at several lengths", kOptions};
  ExperimentResult result{.findings = latency_findings(study, all)};
  std::set<std::int64_t> lengths;
  for (const LatencyRow& row : rows) lengths.insert(row.point.length);
  if (lengths.size() > 1) {
    for (const Part& part : parts_of(rows)) {
      result.figures.push_back(latency_figure(study, part, rows, options));
      if (Figure figure = speed_up_figure(study, part, rows, options); !figure.panels.empty())
        result.figures.push_back(std::move(figure));
    }
  } else {
    result.findings.push_back(
        {fmt::format("There is no curve: {} tokens is the only length. attest bench kernel {} gives one.",
                     length_text(*lengths.begin()), kOptions)});
  }
  result.tables.push_back(
      {"kernel_latency_times",
       fmt::format("Time of one decode call of a layer, in microseconds, its floor and speed-ups; {}. The time is the "
                   "mean over layers of the median replay. The paper's numbers are those of its text, of an RTX 4090.",
                   study.source()),
       times_of(all)});
  result.tables.push_back(
      {"kernel_latency_summary",
       fmt::format("Mean and peak over lengths of the speed-ups; {}. The paper gives its peak without setting and "
                   "length; here it stands at delta 5, which reads less.",
                   study.source()),
       summary_of(latency_summaries(rows))});
  return result;
}

}  // namespace kernel_latency_figure

KernelExperiment kernel_latency() {
  return {.name = "kernel_latency",
          .paper = "Figure 'Kernel latency vs. sequence length'",
          .needs = "a file of attest bench kernel with ffd, for curves at several lengths",
          .make = kernel_latency_figure::make};
}

}  // namespace attest
