// Words for a comparison.
#include "experiments/compare/comparison_sentences.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/cli/output/aligned_text.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

std::string few(const std::vector<std::string>& names, std::size_t maximum = 5) {
  return first_few(names, maximum, ", ", [](const std::string& name) { return excerpt(name, 100); });
}

std::string file_text(std::string_view name, const ComparedFile& file) {
  std::vector<std::string> facts;
  if (!file.version.empty()) facts.push_back("attest " + excerpt(file.version, 40));
  if (!file.git_commit.empty()) facts.push_back("commit " + excerpt(file.git_commit, 40));
  if (!file.device.empty()) facts.push_back(excerpt(file.device, 80));
  return fmt::format("{} = {} ({})", name, printable(file.path),
                     facts.empty() ? "program and device not known" : join(facts, ", "));
}

std::string options_sentence(const Comparison& comparison) {
  std::vector<std::string> selectors;
  std::map<std::string, std::vector<std::string>> differences;
  for (const OptionDifference& option : comparison.selectors.options) {
    if (!differences.contains(option.selector)) selectors.push_back(option.selector);
    differences[option.selector].push_back(
        fmt::format("{} {} -> {}", excerpt(option.option, 40), excerpt(option.first, 60), excerpt(option.second, 60)));
  }
  std::vector<std::string> parts;
  for (const std::string& selector : selectors)
    parts.push_back(fmt::format("{}: {}", printable(selector), join(differences[selector], ", ")));
  const double a = comparison.first_salient_delta, b = comparison.second_salient_delta;
  if (!std::isnan(a) && !std::isnan(b) && a != b) parts.push_back(fmt::format("salient_delta {} -> {}", a, b));
  if (parts.empty()) return "The selectors have the same options in both.";
  return fmt::format("Options that differ (R1 -> R2): {}.", join(parts, "; "));
}

/// Names what only one file has.
std::string lone_sentence(std::string_view file, const std::vector<std::string>& prompts,
                          const std::vector<std::string>& labels, const std::vector<std::string>& settings,
                          bool by_bytes = false) {
  std::vector<std::string> parts;
  if (!prompts.empty()) parts.push_back(fmt::format("{} ({})", counted(std::ssize(prompts), "prompt"), few(prompts)));
  if (!labels.empty()) parts.push_back(fmt::format("{} ({})", counted(std::ssize(labels), "selector"), few(labels)));
  if (!settings.empty())
    parts.push_back(by_bytes ? fmt::format("{}, as R2 has no setting that is known to read as little", few(settings))
                             : few(settings));
  return parts.empty() ? "" : fmt::format("Not compared, in {} alone: {}.", file, join(parts, "; "));
}

/// "ffd at 9, 11".
std::vector<std::string> lone_settings(const Comparison& comparison,
                                       std::vector<std::string> MatchedSelector::*settings) {
  std::vector<std::string> texts;
  for (const MatchedSelector& pair : comparison.selectors.pairs)
    if (!(pair.*settings).empty()) texts.push_back(fmt::format("{} at {}", pair.name(), join(pair.*settings, ", ")));
  return texts;
}

std::string left_out_sentence(const Comparison& comparison) {
  if (comparison.left_out.empty()) return {};
  std::vector<std::string> places;
  for (const auto& [prompt, layer] : comparison.left_out)
    places.push_back(fmt::format("{} layer {}", excerpt(prompt, 60), layer));
  return fmt::format("Left out of both, because a study did not compute {}: {}.", places.size() == 1 ? "it" : "them",
                     few(places));
}

/// Says how many bytes the matched settings read.
std::string bytes_sentence(const Comparison& comparison) {
  std::vector<std::string> pairs;
  const ComparedRow* before = nullptr;
  for (const ComparedRow& row : comparison.rows) {
    if (!row.io || (before != nullptr && before->selector() == row.selector() && before->setting() == row.setting()))
      continue;
    pairs.push_back(fmt::format("{} at {} read {:.3g} % and {:.3g} %", row.selector(), row.setting(),
                                row.io->first * 100, row.io->second * 100));
    before = &row;
  }
  return pairs.empty()
             ? ""
             : fmt::format("Matched by bytes, R2's setting that reads most without reading more than R1's: {}.",
                           few(pairs, 8));
}

std::string infinite_sentence(const Comparison& comparison) {
  std::vector<std::string> rows;
  for (const ComparedRow& row : comparison.rows)
    if (row.infinite > 0)
      rows.push_back(fmt::format("{} ({})", row_name(row), counted(static_cast<std::int64_t>(row.infinite), "prompt")));
  return rows.empty() ? "" : fmt::format("Prompts with an infinite value are left out of {}.", few(rows, 3));
}

std::string prompts_text(const Comparison& comparison) {
  const std::size_t prompts = comparison.prompts.prompts.size(), by_name = comparison.prompts.by_name;
  std::string how = "matched by name and by the content of their dumps";
  if (by_name == prompts)
    how = "matched by name alone: the contents of their dumps differ or are not known";
  else if (by_name > 0)
    how =
        fmt::format("{}, {} of them by name alone (the contents of their dumps differ or are not known)", how, by_name);
  return fmt::format("{}, {}", counted(static_cast<std::int64_t>(prompts), "prompt"), how);
}

double scale_of(const MetricStatistic& metric) { return printed_unit(metric) == "%" ? 100 : 1; }

/// Says that so few prompts cannot show a change, and how many could.
std::string too_few_sentence(const Comparison& comparison) {
  const std::size_t rows = comparison.rows.size(), needed = comparison.prompts_needed(rows);
  std::size_t prompts = 0;  // of the row that most prompts have a value for
  for (const ComparedRow& row : comparison.rows) prompts = std::max(prompts, row.prompts);
  std::string text = fmt::format(
      "{} cannot show a change of {} at confidence {}: ", counted(static_cast<std::int64_t>(prompts), "prompt"),
      rows == 1 ? "one row" : fmt::format("any of {} rows", rows), comparison.test.confidence);
  text += needed == 0 ? fmt::format("{} drawn sign vectors do not reach so far", comparison.test.draws)
                      : fmt::format("{} {} at least {}", counted(static_cast<std::int64_t>(rows), "row"),
                                    rows == 1 ? "takes" : "take", counted(static_cast<std::int64_t>(needed), "prompt"));
  if (rows > 1) {
    const std::size_t for_one = comparison.prompts_needed(1);
    text += "; fewer --metrics, --settings or --selectors make fewer rows";
    if (for_one > 0)
      text += fmt::format(", and one row takes {}", counted(static_cast<std::int64_t>(for_one), "prompt"));
  }
  return text + ".";
}

}  // namespace

std::string printed_name(const MetricStatistic& metric) {
  return metric.statistic == CellStatistic::mean ? metric.quantity() : metric.name();
}

std::string row_name(const ComparedRow& row) {
  std::string name = printed_name(row.metric);
  if (!row.first_label.empty()) name += " of " + excerpt(row.selector(), 80);
  if (!row.setting().empty()) name += fmt::format(" at {}", excerpt(row.setting(), 80));
  return name;
}

std::string_view printed_unit(const MetricStatistic& metric) {
  if (metric.info.unit == "ratio") return "%";
  return metric.info.unit == "nats" ? "nats" : "";
}

std::string value_text(double value, const MetricStatistic& metric) {
  if (std::isnan(value)) return "-";
  if (metric.deficit) return fmt::format("{:.3g}", value * scale_of(metric));
  return printed_unit(metric) == "%" ? fmt::format("{:.2f}", 100 * value) : formatted(value, metric.info.unit);
}

std::string difference_text(double difference, const MetricStatistic& metric) {
  if (std::isnan(difference)) return "-";
  if (difference == 0) return "0";
  return fmt::format("{:+.3g}", difference * scale_of(metric));
}

std::string interval_text(const ComparedRow& row) {
  if (!std::isfinite(row.test.low) || !std::isfinite(row.test.high)) return "-";
  return fmt::format("{} to {}", difference_text(row.test.low, row.metric), difference_text(row.test.high, row.metric));
}

std::vector<std::string> header_sentences(const Comparison& comparison) {
  std::vector<std::string> sentences;
  if (comparison.all_equal()) {
    std::vector<std::string> metrics;
    for (const ComparedRow& row : comparison.rows)
      if (std::ranges::count(metrics, row.metric.metric) == 0) metrics.push_back(row.metric.metric);
    sentences.push_back(
        fmt::format("Every matched cell of the metrics compared ({}) is bit for bit equal.", join(metrics, ", ")));
  }
  sentences.push_back(file_text("R1", comparison.first));
  sentences.push_back(file_text("R2", comparison.second));
  sentences.push_back(fmt::format("Compared: {}, {}; {}.", excerpt(comparison.model), prompts_text(comparison),
                                  layers_in_words({comparison.layers.begin(), comparison.layers.end()})));
  sentences.push_back(options_sentence(comparison));
  sentences.push_back(lone_sentence(
      "R1", comparison.prompts.only_first, comparison.selectors.only_first,
      lone_settings(comparison, &MatchedSelector::only_first),
      std::ranges::any_of(comparison.selectors.pairs, [](const MatchedSelector& pair) { return !pair.io.empty(); })));
  sentences.push_back(lone_sentence("R2", comparison.prompts.only_second, comparison.selectors.only_second,
                                    lone_settings(comparison, &MatchedSelector::only_second)));
  sentences.push_back(left_out_sentence(comparison));
  sentences.push_back(infinite_sentence(comparison));
  sentences.push_back(bytes_sentence(comparison));
  const bool of_bytes =
      std::ranges::any_of(comparison.rows, [](const ComparedRow& row) { return row.metric.metric == "io_ratio"; });
  if (of_bytes && !comparison.one_counts_scan.empty())
    sentences.push_back(
        fmt::format("io_ratio of {} counts the bytes of the scan in one file alone (scan_bytes is 0 in the other).",
                    few(comparison.one_counts_scan)));
  std::erase(sentences, "");
  return sentences;
}

std::string method_sentence(const Comparison& comparison) {
  std::size_t most = 0;
  for (const ComparedRow& row : comparison.rows) most = std::max(most, row.prompts);
  const std::string vectors = most <= kMaxExactFlips ? "all sign vectors"
                                                     : fmt::format("{} sign vectors, drawn with --seed {}",
                                                                   comparison.test.draws, comparison.test.seed);
  std::string text = fmt::format(
      "One difference R2 - R1 per prompt; p: two-sided sign-flip test ({}). The interval is of its row alone", vectors);
  const std::size_t rows = comparison.rows.size();
  return text + (rows == 1 ? "." : fmt::format("; p (Holm) and the verdict allow for all {} rows.", rows));
}

std::string summary_sentence(const Comparison& comparison) {
  const auto count = [&](ChangeVerdict verdict) {
    return static_cast<std::size_t>(std::ranges::count(comparison.rows, verdict, &ComparedRow::verdict));
  };
  const std::size_t rows = comparison.rows.size(), few = count(ChangeVerdict::too_few_prompts);
  const auto equal = static_cast<std::size_t>(std::ranges::count(comparison.rows, true, &ComparedRow::equal));
  if (equal == rows) return rows == 1 ? "The row is equal." : fmt::format("All {} rows are equal.", rows);
  if (few + equal == rows) {
    const std::string text = too_few_sentence(comparison);
    return equal == 0 ? text : fmt::format("{} of {} rows {} equal. {}", equal, rows, equal == 1 ? "is" : "are", text);
  }
  std::vector<std::string> changes;
  for (const ComparedRow& row : comparison.rows) {
    if (row.verdict != ChangeVerdict::changed) continue;
    const std::string unit(printed_unit(row.metric));
    changes.push_back(fmt::format("{} by {}{}{} ({:g} % interval {})", row_name(row),
                                  difference_text(row.test.mean, row.metric), unit.empty() || unit == "%" ? "" : " ",
                                  unit == "%" ? " points" : unit, 100 * comparison.test.confidence,
                                  interval_text(row)));
  }
  constexpr std::size_t kListed = 6;
  if (rows == 1 && changes.empty()) return fmt::format("No evidence of a change of {}.", row_name(comparison.rows[0]));
  std::string text = rows == 1 ? "The row changed"
                               : fmt::format("Of {} rows {} changed", rows,
                                             changes.empty() ? "none" : fmt::format("{}", changes.size()));
  if (!changes.empty()) text += ": " + first_few(changes, kListed, "; ");
  const std::size_t none = count(ChangeVerdict::no_evidence) - equal;
  if (none > 0) text += fmt::format(". {} {} no evidence of a change", none, none == 1 ? "shows" : "show");
  if (equal > 0) text += fmt::format(". {} {} equal", equal, equal == 1 ? "is" : "are");
  if (few > 0) text += fmt::format(". {} {} too few prompts to tell", few, few == 1 ? "has" : "have");
  return text + ".";
}

}  // namespace attest
