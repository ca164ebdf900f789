// Time, floor and fidelity of the decode kernel with 2-, 4- and 8-bit thumbnails.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "dumps/base/join.h"
#include "experiments/bench/kernel/curve_style.h"
#include "experiments/bench/kernel/kernel_experiments.h"
#include "experiments/bench/kernel/point_columns.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace quant_depth_figure {

constexpr const char* kOptions =
    "--only kernel_latency,quant_depth --lengths 16K --batch 1 --delta 5 --keep 27%,100% -o FILE";
constexpr std::int64_t kPapersLength = 16 * 1024;

/// A depth of the paper's table, with its numbers of an RTX 4090.
struct Depth {
  const char* scan;
  const char* name;
  double bits, milliseconds, over_flash;  ///< the paper's time is of a head
};
constexpr std::array<Depth, 3> kDepths{
    {{"2-bit", "2+8", 2, 0.105, 10.65}, {"4-bit", "4+8", 4, 0.201, 5.60}, {"8-bit", "8+8", 8, 0.406, 2.82}}};

struct Row {
  KernelPoint point;
  const Depth* depth = nullptr;
  double over_flash = kNotMeasured, milliseconds = kNotMeasured;

  /// Whether nothing is dropped, so that errors are those of the codes alone.
  bool keeps_all() const { return point.setting.kind == "keep" && point.setting.value == 1; }
  std::string curve() const {
    return curve_name(
        fmt::format("{} {} batch {}", setting_text(point.setting), length_text(point.length), point.batch));
  }
};

/// The rows. Those of one curve, one for each depth, are consecutive.
std::vector<Row> rows_of(const KernelStudy& study) {
  std::vector<Row> rows;
  for (const KernelPoint& point : study.points("quant_depth")) {
    const auto depth = std::ranges::find(kDepths, point.scan, &Depth::scan);
    if (point.method != "ffd" || depth == kDepths.end()) continue;
    rows.push_back({.point = point,
                    .depth = &*depth,
                    .over_flash = speed_up(point, study.baseline("sdpa_flash", point.length, point.batch)),
                    .milliseconds = study.milliseconds_per_head(point)});
  }
  std::ranges::stable_sort(rows, {}, [](const Row& r) {
    return std::tuple(r.point.batch, r.point.length, r.point.setting.kind, r.point.setting.value, r.point.rule,
                      r.point.launches, r.depth->bits);
  });
  return rows;
}

/// The columns that the csv of the figure and the printed table share.
std::vector<ColumnOf<Row>> columns_of_depths() {
  std::vector<ColumnOf<Row>> columns = {
      {{"configuration", kText}, [](const Row& r) { return r.depth->name; }},
      {{"setting", kText}, [](const Row& r) { return setting_text(r.point.setting); }}};
  for (const char* name : {"batch", "length", "layers", "us", "us_low", "us_high"})
    columns.push_back(of_point<Row>(name));
  columns.push_back(
      {{.name = "ms_per_head", .heading = "ms/head", .decimals = 5}, [](const Row& r) { return r.milliseconds; }});
  for (const char* name : {"floor_us", "floor_ratio"}) columns.push_back(of_point<Row>(name));
  columns.push_back(
      {{.name = "over_flash", .heading = "over SDPA flash", .decimals = 2}, [](const Row& r) { return r.over_flash; }});
  for (const char* name :
       {"io_limit", "keep_ratio", "io_ratio", "recall_mean", "recall_min", "lse_error_mean", "lse_error_max"})
    columns.push_back(of_point<Row>(name));
  columns.push_back({{.name = "paper_rtx4090_ms_per_head", .heading = "paper, RTX 4090: ms/head"},
                     [](const Row& r) { return r.depth->milliseconds; }});
  columns.push_back(
      {{.name = "paper_rtx4090_over_flash", .heading = "paper, RTX 4090: over FlashAttention-2", .decimals = 2},
       [](const Row& r) { return r.depth->over_flash; }});
  return columns;
}

Table data_of(const std::vector<Row>& rows) {
  std::vector<ColumnOf<Row>> columns = {{{kCurveColumn, kText}, [](const Row& r) { return r.curve(); }},
                                        {{"bits"}, [](const Row& r) { return r.depth->bits; }},
                                        {{"keeps_all"}, [](const Row& r) { return r.keeps_all() ? 1.0 : 0.0; }}};
  std::ranges::move(columns_of_depths(), std::back_inserter(columns));
  return make_table(rows, columns);
}

/// The rows that the figure shows: the paper's length, else the longest, at the smallest batch size of that length.
std::vector<Row> shown_rows(const std::vector<Row>& rows) {
  std::int64_t length = 0;
  for (const Row& row : rows) length = std::max(length, row.point.length);
  if (std::ranges::count(rows, kPapersLength, [](const Row& r) { return r.point.length; }) > 0) length = kPapersLength;
  std::vector<Row> shown;
  for (const Row& row : rows)  // by batch size
    if (row.point.length == length && (shown.empty() || row.point.batch == shown.front().point.batch))
      shown.push_back(row);
  return shown;
}

Panel panel_of(const KernelStudy& study, const std::vector<Row>& rows, const std::string& y, bool with_floor) {
  Panel panel;
  panel.x = {.label = "bits of a code", .scale = Scale::binary, .low = 1.7, .high = 9.4};
  std::set<std::string> drawn;
  for (const Row& row : rows) {
    if (!drawn.insert(row.curve()).second) continue;
    KernelPoint at_2_bits = row.point;  // whose style the setting has in kernel_latency
    at_2_bits.scan = "2-bit";
    const LineStyle style = study.style(at_2_bits);
    if (with_floor)
      panel.series.push_back({.curve = row.curve(),
                              .title = {},
                              .x = "bits",
                              .y = "floor_us",
                              .style = limit_style(style),
                              .mark = Mark::plain});
    panel.series.push_back(
        {.curve = row.curve(), .title = setting_text(row.point.setting), .x = "bits", .y = y, .style = style});
  }
  return panel;
}

Figure figure_of(const KernelStudy& study, const std::vector<Row>& rows, const ExperimentOptions& options) {
  const std::vector<Row> shown = shown_rows(rows);
  Figure figure{.name = "quant_depth",
                .note = "thin dashes: floor; keep 100 %: what the codes alone lose",
                .data = data_of(rows),
                .columns = 2,
                .panel_height_in = 1.2};
  const KernelPoint& first = shown.front().point;
  const std::string place = fmt::format("{} tokens, batch {}", length_text(first.length), first.batch);
  const Scale scale = options.linear_axes ? Scale::linear : Scale::logarithmic;
  for (const bool time : {true, false}) {
    if (!time && std::ranges::all_of(shown, [](const Row& r) { return std::isnan(r.point.lse_error_mean); })) continue;
    Panel panel = panel_of(study, shown, time ? "us" : "lse_error_mean", time);
    panel.title =
        panel_title(figure.panels.size(), fmt::format("{}, batch {}", length_text(first.length), first.batch));
    panel.y = {.label = time ? "time of a layer (\u00b5s)" : "mean LSE error (nats)", .scale = scale};
    figure.panels.push_back(std::move(panel));
  }
  figure.columns = static_cast<int>(figure.panels.size());
  figure.caption = fmt::format(
      "Time of a decode call and mean LSE error against the bits of a thumbnail's code, at {}; {}. Residuals have 8 "
      "bits. The curve of keep 100 % drops nothing: its error is the reconstruction's, which no delta mends.",
      place, study.source());
  return figure;
}

/// "1.00, 1.52 and 2.61".
std::string listed(const std::vector<double>& values, const char* format) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : i + 1 == values.size() ? " and " : ", ") + fmt::format(fmt::runtime(format), values[i]);
  return text;
}

/// "1.05", or "1.05 to 1.16" of several.
std::string range_text(const std::vector<double>& values) {
  const auto [minimum, maximum] = std::ranges::minmax(values);
  const std::string low = fmt::format("{:.2f}", minimum), high = fmt::format("{:.2f}", maximum);
  return low == high ? low : low + " to " + high;
}

std::vector<Finding> findings_of(const std::vector<Row>& all) {
  const std::vector<Row> rows = shown_rows(all);
  std::vector<std::string> settings;
  std::array<std::vector<double>, kDepths.size()> times, bytes;  // over those of 2+8, of each setting
  std::vector<Finding> of_errors;
  for (std::size_t i = 0; i + kDepths.size() <= rows.size(); ++i) {
    const std::vector<Row> depths(rows.begin() + static_cast<long>(i),
                                  rows.begin() + static_cast<long>(i + kDepths.size()));
    if (depths[0].depth != &kDepths[0] || depths[2].depth != &kDepths[2] || depths[0].curve() != depths[2].curve())
      continue;
    settings.push_back(setting_text(rows[i].point.setting));
    for (std::size_t depth = 0; depth < kDepths.size(); ++depth) {
      times[depth].push_back(depths[depth].point.us / depths[0].point.us);
      bytes[depth].push_back(depths[depth].point.bytes / depths[0].point.bytes);
    }
    const bool has_errors =
        std::ranges::none_of(depths, [](const Row& r) { return std::isnan(r.point.lse_error_mean); });
    if (!depths[0].keeps_all() || !has_errors) continue;
    std::vector<double> errors;
    for (const Row& row : depths) errors.push_back(row.point.lse_error_mean);
    of_errors.push_back({.text = fmt::format("With every token kept the mean LSE error of 2+8, 4+8 and 8+8 is {} nats: "
                                             "what no delta mends.",
                                             listed(errors, "{:.2g}")),
                         .number = fmt::format("{:.2g} nats", errors[0])});
  }
  if (settings.empty()) return of_errors;
  const bool has_bytes = std::ranges::none_of(bytes[2], [](double ratio) { return std::isnan(ratio); }) &&
                         std::ranges::none_of(bytes[1], [](double ratio) { return std::isnan(ratio); });
  const std::string moved =
      has_bytes ? fmt::format(" They move {} and {} times the bytes.", range_text(bytes[1]), range_text(bytes[2])) : "";
  std::vector<Finding> findings = {
      {.text =
           fmt::format("At {} tokens, batch {}, {}, 4+8 takes {} times as long as 2+8, and 8+8 {} times (paper, RTX "
                       "4090: {:.2f} and {:.2f} times).{}",
                       length_text(rows.front().point.length), rows.front().point.batch,
                       settings.size() == 1 ? settings[0] : fmt::format("at {} settings", settings.size()),
                       range_text(times[1]), range_text(times[2]), kDepths[1].milliseconds / kDepths[0].milliseconds,
                       kDepths[2].milliseconds / kDepths[0].milliseconds, moved)}};
  findings.insert(findings.end(), of_errors.begin(), of_errors.end());
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const KernelStudy& study, const ExperimentOptions& options) {
  const std::vector<Row> rows = rows_of(study);
  if (std::ranges::none_of(rows, [](const Row& r) { return r.depth != &kDepths[0]; }))
    return Unsupported{"needs ffd with 4- or 8-bit thumbnails beside 2-bit ones", kOptions};
  ExperimentResult result{.figures = {figure_of(study, rows, options)}, .findings = findings_of(rows)};
  const std::vector<Finding> left = study.left_out({"ffd", "sdpa_flash"});
  result.findings.insert(result.findings.end(), left.begin(), left.end());
  result.tables.push_back(
      {"quant_depth_times",
       fmt::format("Decode call with thumbnails of 2, 4 and 8 bits and residuals of 8; {}. Recall and LSE error are "
                   "against exact attention of the same 16-bit inputs. The paper's numbers are those of an RTX 4090 at "
                   "16K tokens, without a share of kept tokens or a delta.",
                   study.source()),
       make_table(rows, columns_of_depths())});
  return result;
}

}  // namespace quant_depth_figure

KernelExperiment quant_depth() {
  return {.name = "quant_depth",
          .paper = "Table 'Decode kernel latency under different quantization depths'",
          .needs = "a file of attest bench kernel with ffd at 2, 4 and 8 bits",
          .make = quant_depth_figure::make};
}

}  // namespace attest
