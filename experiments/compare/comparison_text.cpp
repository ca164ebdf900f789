// A comparison for people: sentences around a table.
#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "dumps/base/printable.h"
#include "experiments/cli/output/aligned_text.h"
#include "experiments/compare/comparison_formats.h"
#include "experiments/compare/comparison_sentences.h"
#include "experiments/compare/head_list.h"
#include "plots/code.h"
#include "plots/table.h"

namespace attest {
namespace {

constexpr std::size_t kShownHeads = 10;

std::string verdict_word(const ComparedRow& row) {
  if (row.equal) return "equal";
  switch (row.verdict) {
    case ChangeVerdict::changed:
      return "changed";
    case ChangeVerdict::no_evidence:
      return "no evidence";
    case ChangeVerdict::too_few_prompts:
      break;
  }
  return "too few prompts";
}

/// Cells as text; the first three columns and the last are aligned left.
struct TextTable {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> lines;
};

TextTable rows_as_text(const Comparison& comparison) {
  const std::size_t all = comparison.prompts.prompts.size();
  const bool uneven = std::ranges::any_of(comparison.rows, [&](const ComparedRow& row) { return row.prompts != all; });
  TextTable table{
      .headings = {"selector", "setting", "metric", "R1", "R2", "R2 - R1",
                   fmt::format("{:g} % interval", 100 * comparison.test.confidence), "p", "p (Holm)", "verdict"},
      .lines = {}};
  if (uneven) table.headings.insert(table.headings.begin() + 3, "prompts");
  for (const ComparedRow& row : comparison.rows) {
    const std::string unit(printed_unit(row.metric));
    std::vector<std::string>& line = table.lines.emplace_back();
    line = {row.first_label.empty() ? "-" : printable(row.selector()),
            row.setting().empty() ? "-" : printable(row.setting()),
            printed_name(row.metric) + (unit.empty() ? "" : " (" + unit + ")"),
            value_text(row.first, row.metric),
            value_text(row.second, row.metric),
            difference_text(row.test.mean, row.metric),
            interval_text(row),
            fmt::format("{:.2g}", row.test.p),
            fmt::format("{:.2g}", row.adjusted_p),
            verdict_word(row)};
    if (uneven) line.insert(line.begin() + 3, fmt::format("{}", row.prompts));
  }
  return table;
}

/// The heading of the list of heads.
std::string heads_title(const ComparedRow& row) {
  MetricStatistic cells = row.metric;
  cells.deficit = false;
  const std::string_view unit = printed_unit(cells);
  ComparedRow named = row;
  named.metric = with_statistic(cells, "", "mean");
  return fmt::format("Where {} differs most{} (mean over queries, then prompts; description, not a test):",
                     row_name(named), unit.empty() ? "" : fmt::format(", in {}", unit));
}

TextTable heads_as_text(const Comparison& comparison, const ComparedRow& row) {
  MetricStatistic cells = row.metric;
  cells.deficit = false;
  TextTable table{.headings = {"layer", "head", "R2 - R1", "prompts with its sign"}, .lines = {}};
  const HeadDifferences& heads = comparison.heads[row.heads];
  for (const ListedHead& head : largest_differences(comparison, heads, kShownHeads))
    table.lines.push_back({fmt::format("{}", head.layer), heads.heads == 1 ? "-" : fmt::format("{}", head.head),
                           difference_text(head.mean, cells), fmt::format("{} of {}", head.same_sign, head.prompts)});
  return table;
}

std::string aligned(const TextTable& table, std::size_t names) {
  std::vector<std::vector<std::string>> lines = table.lines;
  lines.insert(lines.begin(), table.headings);
  return aligned_text(lines, names);
}

std::string markdown(const TextTable& table) {
  std::vector<Column> columns;
  for (const std::string& heading : table.headings) columns.push_back({.name = heading, .kind = kText});
  Table printed(columns);
  for (const std::vector<std::string>& line : table.lines) printed.add_row({line.begin(), line.end()});
  std::ostringstream out;
  write_markdown(printed, out);
  return out.str();
}

}  // namespace

std::string comparison_text(const Comparison& comparison) {
  std::string text;
  for (const std::string& sentence : header_sentences(comparison)) text += sentence + "\n";
  text += "\n" + aligned(rows_as_text(comparison), 3) + "\n" + method_sentence(comparison) + "\n\n";
  if (const ComparedRow* row = most_significant_row(comparison)) {
    const TextTable heads = heads_as_text(comparison, *row);
    if (!heads.lines.empty()) text += heads_title(*row) + "\n" + aligned(heads, 0) + "\n";
  }
  return text + summary_sentence(comparison) + "\n";
}

std::string comparison_markdown(const Comparison& comparison) {
  std::string text = "# Comparison of two studies\n\n";
  for (const std::string& sentence : header_sentences(comparison)) text += "* " + markdown_text(sentence).text() + "\n";
  text += "\n" + markdown(rows_as_text(comparison)) + "\n" + method_sentence(comparison) + "\n\n";
  if (const ComparedRow* row = most_significant_row(comparison)) {
    const TextTable heads = heads_as_text(comparison, *row);
    if (!heads.lines.empty()) text += markdown_text(heads_title(*row)).text() + "\n\n" + markdown(heads) + "\n";
  }
  return text + markdown_text(summary_sentence(comparison)).text() + "\n";
}

}  // namespace attest
