// Table and figure "Range of keys and values": magnitudes, outlier channels, and what scales of a KV cache lose.
#include <fmt/core.h>

#include <algorithm>

#include "experiments/figures/figures.h"
#include "experiments/study_view/kv_range_study.h"
#include "experiments/study_view/study_dumps.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace kv_range_figure {

struct Row {
  const SideRange* range = nullptr;
  const ScaledFormat* format = nullptr;  ///< null: of no format
  std::size_t index = 0;                 ///< of the format

  const FormatLoss& loss() const { return range->at[index]; }
};

const char* side_name(bool keys) { return keys ? "K" : "V"; }
const char* side_words(bool keys) { return keys ? "keys" : "values"; }
std::string format_name(const ScaledFormat& of) { return fmt::format("{}, {}", of.format->name, of.scale); }

std::string curve_of(bool keys, const ScaledFormat* format) {
  return curve_name(format == nullptr ? side_words(keys)
                                      : fmt::format("{} as {}", side_words(keys), format_name(*format)));
}

double share(std::int64_t count, std::int64_t of) {
  return of == 0 ? kNaN : static_cast<double>(count) / static_cast<double>(of);
}
double saturated(const Row& row, std::size_t scale) {
  return row.format ? share(row.loss().scales[scale].saturated, row.loss().values) : kNaN;
}
double zeroed(const Row& row, std::size_t scale) {
  return row.format ? share(row.loss().scales[scale].zeroed, row.loss().nonzero) : kNaN;
}

Table table_of(const std::vector<Row>& rows) {
  std::vector<ColumnOf<Row>> columns = {
      {{kCurveColumn, kText}, [](const Row& r) { return curve_of(r.range->keys, r.format); }},
      {{"side", kText, "of"}, [](const Row& r) { return side_name(r.range->keys); }},
      {{"layer", kNumber, "layer", 0}, [](const Row& r) { return static_cast<double>(r.range->layer); }},
      {{"max_abs", kNumber, "largest", 4}, [](const Row& r) { return r.range->max_abs; }},
      {{"p9999", kNumber, "99.99 %", 4}, [](const Row& r) { return r.range->p9999; }},
      {{"outlier", kNumber, "largest channel / median", 2}, [](const Row& r) { return r.range->outlier; }},
      {{"outlier_kv_head", kNumber, "its KV head", 0},
       [](const Row& r) { return static_cast<double>(r.range->outlier_kv_head); }},
      {{"outlier_channel", kNumber, "its channel", 0},
       [](const Row& r) { return static_cast<double>(r.range->outlier_channel); }},
      {{"outliers", kNumber, "channels of 10 and more", 0},
       [](const Row& r) { return static_cast<double>(r.range->outliers); }},
      {{"format", kText, "format"}, [](const Row& r) { return r.format ? std::string(r.format->format->name) : ""; }},
      {{"scale", kText, "scale of the run"},
       [](const Row& r) { return r.format ? display_name(r.format->scale) : ""; }}};
  for (std::size_t s = 0; s < kScales.size(); ++s) {
    columns.push_back({{fmt::format("saturated_{}", kScales[s]), kNumber, fmt::format("saturated, {}", kScales[s]), 6},
                       [s](const Row& r) { return saturated(r, s); }});
    columns.push_back({{fmt::format("zeroed_{}", kScales[s]), kNumber, fmt::format("read as 0, {}", kScales[s]), 6},
                       [s](const Row& r) { return zeroed(r, s); }});
  }
  columns.push_back({{"values", kNumber, "values", 0},
                     [](const Row& r) { return static_cast<double>(r.format ? r.loss().values : r.range->values); }});
  return make_table<Row>(rows, columns);
}

/// The first format of a side; null if it has none.
const ScaledFormat* first_of(const KvRangeStudy& study, bool keys) {
  const auto found = std::ranges::find(study.formats, keys, &ScaledFormat::keys);
  return found == study.formats.end() ? nullptr : &*found;
}

std::vector<Panel> panels_of(const KvRangeStudy& study) {
  constexpr double kMinShare = 1e-7;
  std::vector<Panel> panels;
  const auto series = [&](const std::string& curve, const std::string& title, const std::string& column,
                          std::size_t style) {
    return Series{.curve = curve, .title = title, .x = "layer", .y = column, .style = line_style(style)};
  };
  for (const bool keys : {true, false}) {
    if (std::ranges::none_of(study.ranges, [&](const SideRange& range) { return range.keys == keys; })) continue;
    const std::string all = curve_of(keys, nullptr);
    panels.push_back({.title = fmt::format("({}) {}", char('a' + panels.size()), side_words(keys)),
                      .x = {.label = "layer", .whole_numbers = true},
                      .y = {.label = "magnitude", .scale = Scale::logarithmic},
                      .series = {series(all, "largest", "max_abs", 0), series(all, "99.99 %", "p9999", 1),
                                 series(all, "largest channel / median", "outlier", 2)}});
    const ScaledFormat* format = first_of(study, keys);
    if (format == nullptr) continue;
    const std::string curve = curve_of(keys, format);
    Panel losses{.title = fmt::format("({}) {} as {}", char('a' + panels.size()), side_words(keys),
                                      display_name(format_name(*format))),
                 .x = {.label = "layer", .whole_numbers = true},
                 .y = {.label = "share", .scale = Scale::logarithmic, .floor = kMinShare},
                 .series = {}};
    std::size_t style = 3;
    for (const char* scale : {"run", "unit"}) {
      losses.series.push_back(
          series(curve, fmt::format("saturated, {}", scale), fmt::format("saturated_{}", scale), style++));
      losses.series.push_back(
          series(curve, fmt::format("read as 0, {}", scale), fmt::format("zeroed_{}", scale), style++));
    }
    panels.push_back(std::move(losses));
  }
  return panels;
}

/// "layer 2", or "every layer" where a number, as it is printed, is that of all of several layers.
std::string place_of(const SideRange& worst, const std::vector<const SideRange*>& layers, auto&& printed) {
  const bool all_equal =
      std::ranges::all_of(layers, [&](const SideRange* range) { return printed(range) == printed(&worst); });
  return layers.size() > 1 && all_equal ? "every layer" : fmt::format("layer {}", worst.layer);
}

/// Says how large the values are, where the largest is, and how large the largest channel is.
std::string size_in_words(const std::vector<const SideRange*>& layers, const SideRange& maximum,
                          const SideRange& outlier) {
  const std::string place =
      place_of(maximum, layers, [](const SideRange* range) { return fmt::format("{:.4g}", range->max_abs); });
  const std::string channel_place =
      place_of(outlier, layers, [](const SideRange* range) { return fmt::format("{:.3g}", range->outlier); });
  double p9999 = maximum.p9999;
  if (place == "every layer")
    for (const SideRange* range : layers) p9999 = std::max(p9999, range->p9999);
  const std::string channel =
      channel_place == "every layer"
          ? std::string()
          : fmt::format(" (KV head {}, channel {})", outlier.outlier_kv_head, outlier.outlier_channel);
  return fmt::format(
      "The largest of the {} is {:.4g}, in {} (there 99.99 % are at most {:.4g}); the largest channel is {:.3g} times "
      "the median channel in {}{}.",
      side_words(maximum.keys), maximum.max_abs, place, p9999, outlier.outlier, channel_place, channel);
}

std::vector<Finding> findings_of(const KvRangeStudy& study) {
  std::vector<Finding> findings;
  for (const bool keys : {true, false}) {
    std::vector<const SideRange*> layers;
    for (const SideRange& range : study.ranges)
      if (range.keys == keys) layers.push_back(&range);
    if (layers.empty()) continue;
    const auto worst = [&](auto&& number) { return *std::ranges::max_element(layers, {}, number); };
    const SideRange& maximum = *worst([](const SideRange* r) { return r->max_abs; });
    const SideRange& outlier = *worst([](const SideRange* r) { return r->outlier; });
    findings.push_back({.text = size_in_words(layers, maximum, outlier),
                        .severity = outlier.outlier >= kOutlier ? Severity::warning : Severity::note,
                        .number = fmt::format("{:.4g}", maximum.max_abs)});
    for (std::size_t f = 0; f < study.formats.size(); ++f) {
      const ScaledFormat& format = study.formats[f];
      if (format.keys != keys) continue;
      std::vector<const SideRange*> run_in;
      for (const SideRange* range : layers)
        if (range->at[f].values > 0) run_in.push_back(range);
      if (run_in.empty()) continue;
      const auto worst_of = [&](auto&& number) { return *std::ranges::max_element(run_in, {}, number); };
      std::vector<std::string> parts;
      double run = 0;
      for (std::size_t s = 0; s < kScales.size(); ++s) {
        const auto lost = [&](const SideRange* r) { return saturated({r, &format, f}, s); };
        const auto gone = [&](const SideRange* r) { return zeroed({r, &format, f}, s); };
        const SideRange &high = *worst_of(lost), &low = *worst_of(gone);
        if (s + 1 == kScales.size()) run = lost(&high);
        const auto printed_by = [](auto&& share) {
          return [share](const SideRange* r) { return percent_in_words(share(r)); };
        };
        parts.push_back(fmt::format("at {} {} ({}) and {} ({})",
                                    s + 1 == kScales.size()
                                        ? fmt::format("the run's scale ({})", display_name(format.scale))
                                        : std::string(kScales[s]),
                                    percent_in_words(lost(&high)), place_of(high, run_in, printed_by(lost)),
                                    percent_in_words(gone(&low)), place_of(low, run_in, printed_by(gone))));
      }
      findings.push_back(
          {.text = fmt::format("{} in {}: in the worst layers these saturate, and these are read as 0 "
                               "though they are not: {}; {}; {}.",
                               keys ? "Keys" : "Values", format.format->name, parts[0], parts[1], parts[2]),
           .severity = run > 0 ? Severity::warning : Severity::note,
           .number = percent_in_words(run)});
    }
  }
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  if (scaled_formats(study).empty())
    return Unsupported{"needs kv_cache with a format that has a scale (fp8, nvfp4), and the dump",
                       "--selector kv_fp8=kv_cache:k=fp8_e4m3,v=fp8_e4m3"};
  const KvRangeStudy ranges = kv_range_study(study, options.threads);
  if (!ranges.problem.empty()) return Unsupported{fmt::format("needs the dump of the study: {}", ranges.problem)};
  std::vector<Row> rows, of_formats;
  for (const SideRange& range : ranges.ranges) rows.push_back({&range});
  for (std::size_t f = 0; f < ranges.formats.size(); ++f)
    for (const SideRange& range : ranges.ranges)
      if (range.at[f].values > 0) of_formats.push_back({&range, &ranges.formats[f], f});
  rows.insert(rows.end(), of_formats.begin(), of_formats.end());
  const std::string source = study.source() + ranges.exceptions + not_hashed_text(ranges.hashed);
  const std::string what =
      "A value saturates if its magnitude over the scale is beyond what the format holds (448, 57344; 2688 for nvfp4). "
      "amax is the largest magnitude of the layer in the sample over that.";
  ExperimentResult result{.findings = findings_of(ranges)};
  result.figures.push_back(
      {.name = "kv_range",
       .caption = fmt::format("Magnitudes of keys and values by layer, and what the scale of the "
                              "run and a scale of 1 lose. {} Below 1e-7 a share is drawn there; {}.",
                              what, source),
       .data = table_of(rows),
       .columns = 2,
       .panels = panels_of(ranges)});
  result.tables.push_back(
      {"kv_range_table", fmt::format("Keys and values by layer. {} {}.", what, source), table_of(of_formats)});
  return result;
}

}  // namespace kv_range_figure

Experiment kv_range_experiment() {
  return {.name = "kv_range",
          .paper = "Beside the formats of a KV cache: magnitudes, outlier channels, and what scales lose",
          .needs = "kv_cache with a format that has a scale, and the dump where the study read it",
          .make = kv_range_figure::make};
}

}  // namespace attest
