// The text of an audit.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/audit/audit_report.h"
#include "experiments/cli/output/aligned_text.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

constexpr std::size_t kShownAlternatives = 3;

std::string line(const char* name, const std::string& text) { return fmt::format("  {:<13}{}\n", name, text); }

std::string lse_text(double difference) { return std::isnan(difference) ? "-" : fmt::format("{:.2g}", difference); }

std::string departure_text(const RowFit& fit) {
  if (!(fit.error <= fit.bound))
    return fmt::format("relative error {:.2g}, rounding explains {:.2g}", fit.error, fit.bound);
  if (std::isnan(fit.lse_difference))
    return fmt::format("relative error {:.2g}, just beyond what rounding explains", fit.error);
  return fmt::format("its log-sum-exp differs by {:+.2g} nats; its output is within rounding", fit.lse_difference);
}

std::string first_text(const AuditedLayer& first) {
  const FirstDeparture& departure = *first.audit.first;
  return fmt::format("layer {}, sample {}, query at {}, head {}: {}", first.audit.layer, printable(first.sample),
                     departure.position, departure.head, departure_text(departure.fit));
}

/// Joins layers with the same explanation into one, which has the rows of all and the largest errors.
struct ExplainedLayers {
  std::set<int> layers;
  Explanation together;
  bool prompt_alone = true;

  void add(const LayerAudit& layer) {
    const Explanation& more = *layer.explanation;
    prompt_alone = prompt_alone && layer.prompt_alone;
    if (layers.empty()) {
      together = more;
    } else {
      together.failing += more.failing;
      together.tested += more.tested;
      together.explaining_left_out = std::min(together.explaining_left_out, more.explaining_left_out);
      add_candidates(together.explaining, more.explaining);
      add_candidates(together.nearest, more.nearest);
    }
    layers.insert(layer.layer);
  }

 private:
  /// Keeps the values that are in both.
  static void add_candidates(std::vector<TestedHypothesis>& kept, const std::vector<TestedHypothesis>& more) {
    std::erase_if(kept, [&](TestedHypothesis& one) {
      const auto same = std::ranges::find(more, one.text, &TestedHypothesis::text);
      if (same == more.end()) return true;
      one.within += same->within;
      if (!(same->error <= one.error)) {
        one.error = same->error;
        one.bound = same->bound;
      }
      return false;
    });
  }
};

/// One line for all layers with the same explanation.
std::string explanations_text(const DumpAudit& audit) {
  std::vector<std::string> order;
  std::map<std::string, ExplainedLayers> groups;
  for (const AuditedLayer& one : audit.layers) {
    if (!one.audit.explanation) continue;
    const Explanation& found = *one.audit.explanation;
    const std::string key = found.explaining.empty() ? "nearest " + found.nearest.front().text
                                                     : "explained " + found.explaining.front().text;
    if (!groups.contains(key)) order.push_back(key);
    groups[key].add(one.audit);
  }
  std::string text;
  for (const std::string& key : order) {
    const ExplainedLayers& group = groups[key];
    text +=
        fmt::format("  {}: {}\n", layers_in_words(group.layers), explanation_text(group.together, group.prompt_alone));
  }
  return text;
}

std::string table_text(const DumpAudit& audit) {
  std::vector<std::vector<std::string>> lines{
      {"layer", "sample", "rows", "beyond", "error", "rounding", "LSE", "error of exact", "beyond exact"}};
  for (const AuditedLayer& one : audit.layers) {
    const HeadErrors expected = one.audit.worst_expected(), exact = one.audit.worst_exact();
    lines.push_back({std::to_string(one.audit.layer), printable(one.sample), std::to_string(one.audit.rows),
                     std::to_string(expected.beyond), fmt::format("{:.2g}", expected.error),
                     fmt::format("{:.2g}", one.audit.median_bound), lse_text(expected.lse_difference),
                     fmt::format("{:.2g}", exact.error), std::to_string(exact.beyond)});
  }
  return aligned_text(lines, 2);
}

struct Counts {
  std::int64_t rows = 0, beyond = 0, beyond_exact = 0;
  std::set<int> layers, failing_layers;
  std::set<std::string> element_types;
  std::map<std::string, std::set<int>> own_roundings;  ///< and the layers that needed them
  bool cache_counts = false;                           ///< something else than exact attention was expected
};

Counts counts_of(const DumpAudit& audit) {
  Counts counts;
  for (const AuditedLayer& one : audit.layers) {
    counts.rows += one.audit.rows;
    counts.beyond += one.audit.worst_expected().beyond;
    counts.beyond_exact += one.audit.worst_exact().beyond;
    counts.layers.insert(one.audit.layer);
    if (!one.audit.own_rounding.empty()) counts.own_roundings[one.audit.own_rounding].insert(one.audit.layer);
    if (one.audit.first) counts.failing_layers.insert(one.audit.layer);
    const ElementType wider = unit_of(one.output_type) > unit_of(one.element_type) ? one.output_type : one.element_type;
    counts.element_types.emplace(name_of(wider));
    counts.cache_counts = counts.cache_counts || one.audit.expected != "exact attention";
  }
  return counts;
}

}  // namespace

std::string explanation_text(const Explanation& found, bool prompt_alone) {
  const std::string rows = found.tested == found.failing
                               ? fmt::format("all {} rows beyond rounding", found.failing)
                               : fmt::format("the {} tested of {} rows beyond rounding", found.tested, found.failing);
  const std::string note =
      prompt_alone ? "; rows of the prompt alone leave rounding, and an engine may attend before it stores keys" : "";
  if (found.explaining.empty()) {
    const TestedHypothesis& nearest = found.nearest.front();
    return fmt::format(
        "no hypothesis explains {}; the nearest: {}, within rounding on {} of them, relative error up to "
        "{:.2g} where rounding explains {:.2g}{}",
        rows, nearest.text, nearest.within, nearest.error, nearest.bound, note);
  }
  const TestedHypothesis& best = found.explaining.front();
  std::string text = fmt::format("explained by: {}, relative error up to {:.2g} ({})", best.text, best.error, rows);
  const std::size_t others = found.explaining.size() - 1;
  if (others > 0) {
    std::vector<std::string> shown;
    for (std::size_t i = 1; i <= std::min(others, kShownAlternatives); ++i)
      shown.push_back(fmt::format("{}, {:.2g}", found.explaining[i].text, found.explaining[i].error));
    if (others > shown.size()) shown.push_back(fmt::format("{} more", others - shown.size()));
    if (found.explaining_left_out > 0)
      shown.push_back(fmt::format("{} others, which were tested on the {} worst rows alone", found.explaining_left_out,
                                  found.screened));
    text += fmt::format("; as well by: {}: these rows do not tell them apart", join(shown, "; "));
  }
  return text + note;
}

std::string audit_text(const AuditReport& report) {
  const DumpAudit& audit = report.audit;
  const Counts counts = counts_of(audit);
  std::string text =
      fmt::format("{}: {}\n", printable(report.dump.path), engine_in_words(report.dump.engine, report.dump.kv_cache));
  text += line("compared", fmt::format("{} rows (query, query head) of {} with {}{}, on the {}", counts.rows,
                                       counted(std::ssize(counts.layers), "layer"), printable(report.expected),
                                       audit.scales_of_layers ? " and the scales of each layer" : "", report.device));
  const std::vector<std::string> types(counts.element_types.begin(), counts.element_types.end());
  text += line("rounding", fmt::format("{:g} units of {}, and what it adds to scores, relative to a row's size",
                                       report.roundings, join(types, ", ")));
  for (const auto& [own, layers] : counts.own_roundings)
    text += line("", fmt::format("and that of the engine: {}, in {}", own, layers_in_words(layers)));
  if (audit.without_output > 0)
    text += line("left out", fmt::format("{} of a sample without output",
                                         counted(static_cast<std::int64_t>(audit.without_output), "layer")));
  if (const AuditedLayer* first = audit.first()) {
    text += fmt::format("does not agree: {} of {} rows leave rounding, in {} of {}\n", counts.beyond, counts.rows,
                        counts.failing_layers.size(), counted(std::ssize(counts.layers), "layer"));
    text += line("first", first_text(*first)) + explanations_text(audit);
  } else {
    text += "agrees: rounding explains every row\n";
    if (counts.cache_counts && counts.beyond_exact == 0)
      text += line("note",
                   "exact attention is within rounding of every row, too: these rows do not tell it from what "
                   "was expected");
  }
  return text + "\n" + table_text(audit);
}

}  // namespace attest
