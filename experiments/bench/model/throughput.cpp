// Tokens per second of a decoding model against the context, and how many times as fast as dense attention that is.
#include "experiments/bench/model/throughput.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "dumps/base/join.h"
#include "experiments/bench/kernel/curve_style.h"
#include "experiments/bench/kernel/kernel_text.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

constexpr const char* kModelCommand = "attest bench model";

/// The paper's numbers, in its text and caption, at batch size 1. FlashAttention-2 on the RTX 4090 has a speed-up
/// alone.
struct PapersPoint {
  const char* method;
  std::int64_t context;
  double h100, rtx4090, over_flash_h100, over_flash_rtx4090;
};
constexpr double kNone = kNotMeasured;
constexpr PapersPoint kPaper[] = {{"ffd", 4096, 110.6, 61.0, kNone, kNone},
                                  {"ffd", 16384, 87.0, 51.8, 1.96, 2.37},
                                  {"sdpa_flash", 16384, 44.5, kNone, kNone, kNone}};

struct Row {
  ModelPoint point;
  const PapersPoint* paper = nullptr;

  std::string curve() const { return curve_name(fmt::format("{} batch {}", point.curve_text(), point.batch)); }
  double papers(double PapersPoint::*number) const { return paper == nullptr ? kNone : paper->*number; }
};

/// Rows are sorted by batch size, then by curve (FFD by setting, dense methods last), then by context. The paper names
/// no setting of its FFD: its numbers stand beside the setting that keeps least.
std::vector<Row> rows_of(const std::vector<ModelPoint>& points) {
  std::vector<Row> rows;
  for (const ModelPoint& point : points) rows.push_back({point});
  std::ranges::stable_sort(rows, {}, [](const Row& r) {
    const ModelPoint& p = r.point;
    return std::tuple(p.batch, p.is_baseline(), p.method != "sdpa_flash", p.setting, p.value, p.context);
  });
  for (const PapersPoint& paper : kPaper) {
    Row* minimum = nullptr;
    for (Row& row : rows)
      if (row.point.batch == 1 && row.point.context == paper.context && row.point.method == paper.method &&
          (minimum == nullptr || row.point.kept < minimum->point.kept))
        minimum = &row;
    if (minimum != nullptr) minimum->paper = &paper;
  }
  return rows;
}

std::vector<ColumnOf<Row>> columns() {
  const auto number = [](const char* name, const char* heading, int decimals, double ModelPoint::*value) {
    return ColumnOf<Row>{{.name = name, .heading = heading, .decimals = decimals},
                         [value](const Row& r) { return r.point.*value; }};
  };
  const auto paper = [](const char* name, const char* heading, int decimals, double PapersPoint::*value) {
    return ColumnOf<Row>{{.name = name, .heading = heading, .decimals = decimals},
                         [value](const Row& r) { return r.papers(value); }};
  };
  return {
      {{.name = "batch", .decimals = 0}, [](const Row& r) { return static_cast<double>(r.point.batch); }},
      {{.name = "context", .decimals = 0}, [](const Row& r) { return static_cast<double>(r.point.context); }},
      number("kept", "tokens kept", 3, &ModelPoint::kept),
      number("tokens_per_second", "tokens/s", 1, &ModelPoint::tokens_per_second),
      number("low", "least", 1, &ModelPoint::low),
      number("high", "most", 1, &ModelPoint::high),
      number("step_ms", "ms/step", 3, &ModelPoint::step_ms),
      number("attention_share", "attention's share", 3, &ModelPoint::attention_share),
      {{.name = "cache_gb", .heading = "caches, GB", .decimals = 2},
       [](const Row& r) { return r.point.cache_bytes / 1e9; }},
      number("over_flash", "over SDPA flash", 2, &ModelPoint::over_flash),
      number("limit_flash", "limit", 2, &ModelPoint::limit_flash),
      number("over_cudnn", "over SDPA cuDNN", 2, &ModelPoint::over_cudnn),
      number("limit_cudnn", "limit", 2, &ModelPoint::limit_cudnn),
      paper("paper_h100", "paper, H100: tokens/s", 1, &PapersPoint::h100),
      paper("paper_h100_over_flash", "paper, H100: over FlashAttention-2", 2, &PapersPoint::over_flash_h100),
      paper("paper_rtx4090", "paper, RTX 4090: tokens/s", 1, &PapersPoint::rtx4090),
      paper("paper_rtx4090_over_flash", "paper, RTX 4090: over FlashAttention-2", 2, &PapersPoint::over_flash_rtx4090)};
}

Table table_of(const std::vector<Row>& rows, const char* first, std::string (*name)(const Row&)) {
  std::vector<ColumnOf<Row>> all = columns();
  all.insert(all.begin(), {{first, kText}, name});
  return make_table(rows, all);
}

/// FFD's settings in colours, the dense methods black and grey.
LineStyle style_of(const std::vector<Row>& rows, const ModelPoint& point) {
  if (point.is_baseline()) return baseline_style(point.method);
  std::set<std::tuple<std::string, double>> before;
  for (const Row& row : rows)
    if (const auto key = std::tuple(row.point.setting, row.point.value);
        !row.point.is_baseline() && key < std::tuple(point.setting, point.value))
      before.insert(key);
  return coloured_style(before.size());
}

struct Kind {
  const char *name, *y, *limit, *axis;
};
constexpr Kind kSpeed{"throughput", "tokens_per_second", "", "tokens per second"};
constexpr Kind kSpeedUp{"throughput_speedup", "over_flash", "limit_flash", "speed-up over SDPA flash"};

Panel panel_of(const Kind& kind, const std::vector<Row>& rows, int batch, std::size_t index,
               const ExperimentOptions& options) {
  const bool speed_up = kind.limit[0] != '\0';
  Panel panel{.title = panel_title(index, fmt::format("batch {}", batch)),
              .x = {.label = "context (tokens)", .scale = Scale::binary},
              .y = {.label = kind.axis, .scale = options.linear_axes || speed_up ? Scale::linear : Scale::logarithmic},
              .series = {}};
  if (speed_up) panel.references = {{.at = 1}};
  std::set<std::string> drawn;
  for (const Row& row : rows) {
    if (row.point.batch != batch || (speed_up && row.point.is_baseline()) || !drawn.insert(row.curve()).second)
      continue;
    Series series{.curve = row.curve(),
                  .title = row.point.curve_text(),
                  .x = "context",
                  .y = kind.y,
                  .style = style_of(rows, row.point)};
    if (speed_up)
      panel.series.push_back({.curve = row.curve(),
                              .title = {},
                              .x = "context",
                              .y = kind.limit,
                              .style = limit_style(series.style),
                              .mark = Mark::plain});
    else
      series.bands = {{"low", "high", 0.18}};
    panel.series.push_back(std::move(series));
  }
  return panel;
}

/// No figure is made if nothing has more than one context.
std::optional<Figure> figure_of(const Kind& kind, const ModelBench& bench, const std::vector<Row>& rows,
                                const ExperimentOptions& options) {
  constexpr std::size_t kMaxPanels = 6;  // a page has no room for many
  const bool speed_up = kind.limit[0] != '\0';
  std::set<int> batches;
  std::set<std::int64_t> contexts;
  for (const Row& row : rows) {
    if (speed_up && (row.point.is_baseline() || std::isnan(row.point.over_flash))) continue;
    batches.insert(row.point.batch);
    contexts.insert(row.point.context);
  }
  if (contexts.size() < 2) return std::nullopt;
  Figure figure{.name = kind.name,
                .note = speed_up ? "thin dashes: 1/(1 - share + share/speed-up)" : "",
                .data = table_of(rows, kCurveColumn, [](const Row& r) { return r.curve(); })};
  for (int batch : batches)
    if (figure.panels.size() < kMaxPanels)
      figure.panels.push_back(panel_of(kind, rows, batch, figure.panels.size(), options));
  figure.columns = std::min(2, static_cast<int>(figure.panels.size()));
  figure.panel_height_in = 1.4;
  figure.caption = speed_up
                       ? fmt::format(
                             "How many times as fast a whole decoding step is as with SDPA flash; {}. Dashes: what the "
                             "share of attention in the dense step allows at the speed-up of the attention alone.",
                             bench.source())
                       : fmt::format(
                             "Tokens per second of a decoding model against its context; {}. A step is one CUDA graph; "
                             "medians, with bands from the slowest to the fastest step.",
                             bench.source());
  const auto place = [](const ModelPoint& p) {
    return fmt::format("{} at {}, batch {} ({})", p.curve_text(), length_text(p.context), p.batch, p.left_out);
  };
  if (!bench.left_points.empty())
    figure.caption += fmt::format(" Not measured: {}.", first_few(bench.left_points, 4, "; ", place));
  if (batches.size() > kMaxPanels)
    figure.caption += fmt::format(" The {} smallest of {} batch sizes.", kMaxPanels, batches.size());
  return figure;
}

/// How many times as fast a point is as the better of the dense methods.
double over_dense(const ModelPoint& p) { return std::fmin(p.over_flash, p.over_cudnn); }

std::vector<Finding> findings_of(const ModelBench& bench, const std::vector<Row>& rows) {
  std::vector<Finding> findings;
  const ModelPoint *best = nullptr, *check = &rows.front().point;
  std::vector<std::string> slower;
  for (const Row& row : rows) {
    const ModelPoint& p = row.point;
    if (p.logits_difference > check->logits_difference) check = &p;
    if (p.is_baseline() || std::isnan(over_dense(p))) continue;
    if (best == nullptr || over_dense(p) > over_dense(*best)) best = &p;
    if (over_dense(p) < 1)
      slower.push_back(fmt::format("{} at {}, batch {}", p.curve_text(), length_text(p.context), p.batch));
  }
  if (best != nullptr)
    findings.push_back(
        {.text = fmt::format("{} decodes {:.1f} tokens/s at {} tokens, batch {}: {:.2f} times the better "
                             "of the dense methods, the most that was measured.",
                             best->curve_text(), best->tokens_per_second, length_text(best->context), best->batch,
                             over_dense(*best)),
         .number = fmt::format("{:.2f}x", over_dense(*best))});
  if (!slower.empty())
    findings.push_back(
        {.text = fmt::format("Slower than the better of the dense methods: {}.", first_few(slower, 4, "; "))});
  findings.push_back(
      {.text = fmt::format("With everything kept, logits differ from those of attention in float32 by at "
                           "most {:.2g} of their norm (tolerance {:g}).",
                           check->logits_difference, check->tolerance)});
  for (const std::string& left : bench.left_out) findings.push_back({.text = left});
  return findings;
}

}  // namespace

ExperimentResult throughput_of(const ModelBench& bench, const ExperimentOptions& options) {
  const std::vector<Row> rows = rows_of(bench.points);
  std::vector<ModelPoint> with_left_out = bench.points;
  with_left_out.insert(with_left_out.end(), bench.left_points.begin(), bench.left_points.end());
  ExperimentResult result{.findings = findings_of(bench, rows)};
  for (const Kind& kind : {kSpeed, kSpeedUp})
    if (std::optional<Figure> figure = figure_of(kind, bench, rows, options))
      result.figures.push_back(std::move(*figure));
  result.tables.push_back(
      {"throughput_times",
       fmt::format("Tokens per second of a decoding model; {}. The limit is 1/(1 - share + share/speed-up): share of "
                   "attention in the dense step, speed-up of the attention alone. The paper's numbers are those of its "
                   "text, of other software; its FFD, of an unknown setting, stands beside the one that keeps least.",
                   bench.source()),
       table_of(rows_of(with_left_out), "method", [](const Row& r) {
         const std::string& reason = r.point.left_out;
         return r.point.curve_text() + (reason.empty() ? "" : fmt::format(" (not measured: {})", reason));
       })});
  return result;
}

void add_throughput(const std::vector<ModelBench>& benches, const FigureRequest& request, FigureReport& report) {
  const bool by_name = std::ranges::count(request.only, kThroughput.name) > 0;
  if (!by_name && (benches.empty() || !request.only.empty())) return;
  if (benches.empty()) {
    report.skipped.push_back(
        {.experiment = kThroughput.name, .reason = "needs " + kThroughput.needs, .command = kModelCommand});
    return;
  }
  std::vector<StudyOutcome> outcomes;
  for (const ModelBench& bench : benches) outcomes.push_back({bench.title, throughput_of(bench, request.options)});
  add_outcomes(kThroughput.name, kThroughput.paper, std::move(outcomes), kModelCommand, report);
}

}  // namespace attest
