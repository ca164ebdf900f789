// A comparison for programs: csv and JSON with every number.
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "dumps/base/json.h"
#include "dumps/base/json_numbers.h"
#include "experiments/compare/comparison_formats.h"
#include "experiments/compare/comparison_sentences.h"
#include "kernels/base/not_defined.h"
#include "plots/table.h"

namespace attest {
namespace {

std::string_view word_of(ChangeVerdict verdict) {
  switch (verdict) {
    case ChangeVerdict::changed:
      return "changed";
    case ChangeVerdict::no_evidence:
      return "no evidence of a change";
    case ChangeVerdict::too_few_prompts:
      break;
  }
  return "too few prompts to tell";
}

Json json_of(const ComparedFile& file, const std::vector<std::string>& only_prompts,
             const std::vector<std::string>& only_selectors) {
  return {{"path", file.path},     {"version", file.version},       {"git_commit", file.git_commit},
          {"device", file.device}, {"prompts_alone", only_prompts}, {"selectors_alone", only_selectors}};
}

Json json_of(const ComparedRow& row) {
  return {{"selector_1", row.first_label},
          {"selector_2", row.second_label},
          {"setting", name_of(row.kind)},
          {"setting_label", row.setting_label},
          {"setting_2", text_or_null(row.second_setting)},
          {"io_1", row.io ? Json(row.io->first) : Json()},
          {"io_2", row.io ? Json(row.io->second) : Json()},
          {"metric", row.metric.name()},
          {"unit", row.metric.info.unit},
          {"prompts", row.prompts},
          {"infinite_prompts", row.infinite},
          {"mean_1", finite_or_null(row.first)},
          {"mean_2", finite_or_null(row.second)},
          {"difference", finite_or_null(row.test.mean)},
          {"low", finite_or_null(row.test.low)},
          {"high", finite_or_null(row.test.high)},
          {"p", row.test.p},
          {"p_holm", row.adjusted_p},
          {"equal", row.equal},
          {"verdict", word_of(row.verdict)}};
}

/// One line of the csv.
struct CsvLine {
  const ComparedRow* row = nullptr;
  std::string layer, head;  ///< empty for the row itself
  double difference = kNaN, same_sign = kNaN;
};

/// NaN without prompts.
double same_sign_share(const HeadDifferences& heads, std::size_t i) {
  return static_cast<double>(heads.same_sign[i]) / heads.prompts[i];
}

/// The rows, each the first of its metric, selector and setting.
std::vector<const ComparedRow*> rows_of_heads(const Comparison& comparison) {
  std::vector<const ComparedRow*> rows(comparison.heads.size());
  for (const ComparedRow& row : comparison.rows)
    if (rows[row.heads] == nullptr) rows[row.heads] = &row;
  return rows;
}

}  // namespace

Json comparison_json(const Comparison& comparison) {
  Json names = Json::array(), left_out = Json::array(), options = Json::array(), rows = Json::array(),
       heads = Json::array();
  for (const MatchedPrompt& prompt : comparison.prompts.prompts) names.push_back(prompt.name);
  for (const auto& [prompt, layer] : comparison.left_out) left_out.push_back({{"prompt", prompt}, {"layer", layer}});
  for (const OptionDifference& option : comparison.selectors.options)
    options.push_back({{"selector", option.selector},
                       {"option", option.option},
                       {"value_1", option.first},
                       {"value_2", option.second}});
  for (const ComparedRow& row : comparison.rows) rows.push_back(json_of(row));
  for (const ComparedRow* row : rows_of_heads(comparison)) {
    const HeadDifferences& found = comparison.heads[row->heads];
    std::vector<double> shares;
    for (std::size_t i = 0; i < found.mean.size(); ++i) shares.push_back(same_sign_share(found, i));
    heads.push_back({{"selector_1", row->first_label},
                     {"selector_2", row->second_label},
                     {"setting", name_of(row->kind)},
                     {"setting_label", row->setting_label},
                     {"metric", row->metric.metric},
                     {"heads", found.heads},
                     {"difference", list_of_numbers(found.mean, finite_or_null)},
                     {"prompts", found.prompts},
                     {"same_sign", list_of_numbers(shares, finite_or_null)}});
  }
  return {{"model", comparison.model},
          {"study_1", json_of(comparison.first, comparison.prompts.only_first, comparison.selectors.only_first)},
          {"study_2", json_of(comparison.second, comparison.prompts.only_second, comparison.selectors.only_second)},
          {"prompts", names},
          {"prompts_matched_by_name", comparison.prompts.by_name},
          {"layers", comparison.layers},
          {"left_out", left_out},
          {"options", options},
          {"confidence", comparison.test.confidence},
          {"draws", comparison.test.draws},
          {"seed", comparison.test.seed},
          {"prompts_needed", comparison.prompts_needed(comparison.rows.size())},
          {"all_equal", comparison.all_equal()},
          {"header", header_sentences(comparison)},
          {"summary", summary_sentence(comparison)},
          {"rows", rows},
          {"heads", heads}};
}

std::string comparison_csv(const Comparison& comparison) {
  std::vector<CsvLine> lines;
  for (const ComparedRow& row : comparison.rows) lines.push_back({&row, "", "", row.test.mean, kNaN});
  for (const ComparedRow* row : rows_of_heads(comparison)) {
    const HeadDifferences& heads = comparison.heads[row->heads];
    for (std::size_t i = 0; i < heads.mean.size(); ++i)
      lines.push_back({row, fmt::format("{}", comparison.layers[i / heads.heads]),
                       heads.heads == 1 ? "" : fmt::format("{}", i % heads.heads), heads.mean[i],
                       same_sign_share(heads, i)});
  }
  std::vector<ColumnOf<CsvLine>> columns{
      {{"selector_1", kText}, [](const CsvLine& l) { return l.row->first_label; }},
      {{"selector_2", kText}, [](const CsvLine& l) { return l.row->second_label; }},
      {{"setting", kText}, [](const CsvLine& l) { return std::string(name_of(l.row->kind)); }},
      {{"setting_label", kText}, [](const CsvLine& l) { return l.row->setting_label; }},
      {{"setting_2", kText}, [](const CsvLine& l) { return l.row->second_setting; }},
      {{"metric", kText},
       [](const CsvLine& l) { return l.layer.empty() ? l.row->metric.name() : l.row->metric.metric; }},
      {{"layer", kText}, [](const CsvLine& l) { return l.layer; }},
      {{"head", kText}, [](const CsvLine& l) { return l.head; }}};
  const auto add = [&](const char* name, double (*of_row)(const ComparedRow&)) {
    columns.push_back({{name}, [of_row](const CsvLine& l) { return l.layer.empty() ? of_row(*l.row) : kNaN; }});
  };
  add("prompts", [](const ComparedRow& r) { return static_cast<double>(r.prompts); });
  add("mean_1", [](const ComparedRow& r) { return r.first; });
  add("mean_2", [](const ComparedRow& r) { return r.second; });
  columns.push_back({{"difference"}, [](const CsvLine& l) { return l.difference; }});
  columns.push_back({{"same_sign"}, [](const CsvLine& l) { return l.same_sign; }});
  add("low", [](const ComparedRow& r) { return r.test.low; });
  add("high", [](const ComparedRow& r) { return r.test.high; });
  add("p", [](const ComparedRow& r) { return r.test.p; });
  add("p_holm", [](const ComparedRow& r) { return r.adjusted_p; });
  columns.push_back({{"verdict", kText}, [](const CsvLine& l) {
                       return l.layer.empty() ? std::string(word_of(l.row->verdict)) : std::string();
                     }});
  std::ostringstream out;
  write_csv(make_table(lines, columns), out);
  return out.str();
}

}  // namespace attest
