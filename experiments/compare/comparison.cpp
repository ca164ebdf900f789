// Streams the prompts, collects their differences, tests the rows and judges them.
#include "experiments/compare/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "analysis/statistics/holm.h"
#include "dumps/base/json.h"
#include "dumps/base/ordered_pipeline.h"
#include "dumps/base/parallel_for.h"
#include "experiments/compare/comparison_plan.h"
#include "experiments/compare/prompt_differences.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

ComparedFile file_of(const ResultsFile& file) {
  const Json manifest = parsed_json(file.manifest()).value_or(nullptr);
  return {.path = file.path(),
          .version = manifest["program"]["version"].text_or(""),
          .git_commit = manifest["program"]["git_commit"].text_or(""),
          .device = manifest["device"].text_or("")};
}

/// Sums over prompts of the differences of one layer and head.
struct HeadSum {
  double sum = 0;
  std::uint32_t count = 0, positive = 0, negative = 0;
};

/// Collects the numbers of the prompts, one prompt after the other.
class Collected {
 public:
  explicit Collected(Comparison& comparison)
      : comparison_(comparison),
        first_(comparison.rows.size()),
        second_(comparison.rows.size()),
        sums_(comparison.heads.size()) {}

  void add(const PromptDifferences& prompt) {
    for (std::size_t r = 0; r < comparison_.rows.size(); ++r) {
      ComparedRow& row = comparison_.rows[r];
      row.equal = row.equal && prompt.equal[r] != 0;
      if (std::isnan(prompt.first[r]) || std::isnan(prompt.second[r])) continue;
      if (std::isinf(prompt.first[r]) || std::isinf(prompt.second[r])) {
        ++row.infinite;
        continue;
      }
      first_[r].push_back(prompt.first[r]);
      second_[r].push_back(prompt.second[r]);
    }
    for (std::size_t h = 0; h < prompt.heads.size(); ++h) add_heads(prompt.heads[h], h);
  }

  /// Fills in what each row says by itself.
  void test_row(std::size_t r) const {
    ComparedRow& row = comparison_.rows[r];
    row.prompts = first_[r].size();
    row.equal = row.equal && row.prompts + row.infinite > 0;
    std::vector<double> differences(row.prompts);
    for (std::size_t i = 0; i < row.prompts; ++i) {
      differences[i] = second_[r][i] - first_[r][i];
      row.first += first_[r][i];
      row.second += second_[r][i];
    }
    row.first = row.prompts == 0 ? kNaN : row.first / static_cast<double>(row.prompts);
    row.second = row.prompts == 0 ? kNaN : row.second / static_cast<double>(row.prompts);
    row.test = sign_flip_test(differences, comparison_.test);
  }

  void finish_heads() {
    for (std::size_t h = 0; h < sums_.size(); ++h)
      for (const HeadSum& sum : sums_[h]) {
        HeadDifferences& heads = comparison_.heads[h];
        heads.mean.push_back(sum.sum / sum.count);
        const std::uint32_t same = heads.mean.back() > 0   ? sum.positive
                                   : heads.mean.back() < 0 ? sum.negative
                                                           : sum.count - sum.positive - sum.negative;
        heads.prompts.push_back(sum.count);
        heads.same_sign.push_back(same);
      }
  }

 private:
  void add_heads(const PromptDifferences::Heads& found, std::size_t h) {
    if (found.heads == 0) return;
    comparison_.heads[h].heads = found.heads;
    sums_[h].resize(comparison_.layers.size() * found.heads);
    for (std::size_t y = 0; y < found.layers.size(); ++y) {
      const auto layer = static_cast<std::size_t>(std::ranges::lower_bound(comparison_.layers, found.layers[y]) -
                                                  comparison_.layers.begin());
      for (std::size_t head = 0; head < found.heads; ++head) {
        const double difference = found.mean[y * found.heads + head];
        if (std::isnan(difference)) continue;
        HeadSum& sum = sums_[h][layer * found.heads + head];
        sum.sum += difference;
        ++sum.count;
        sum.positive += difference > 0;
        sum.negative += difference < 0;
      }
    }
  }

  Comparison& comparison_;
  std::vector<std::vector<double>> first_, second_;  ///< [rows][prompts with both]
  std::vector<std::vector<HeadSum>> sums_;           ///< [Comparison::heads][layers, heads]
};

void find_left_out(const ResultsFile& first, const ResultsFile& second, Comparison& comparison) {
  for (const MatchedPrompt& prompt : comparison.prompts.prompts) {
    std::set<int> layers;
    for (const MatchedSelector& pair : comparison.selectors.pairs)
      for (const int layer : layers_not_done(first, second, prompt, pair)) layers.insert(layer);
    for (const int layer : layers) comparison.left_out.emplace_back(prompt.name, layer);
  }
}

}  // namespace

std::string ComparedRow::selector() const {
  return first_label == second_label ? first_label : first_label + "=" + second_label;
}

std::string ComparedRow::setting() const {
  if (kind == SettingKind::none)
    return second_setting.empty() ? std::string() : fmt::format("{} = {}", kNoSetting, second_setting);
  return fmt::format("{} {}{}{}", name_of(kind), setting_label, second_setting.empty() ? "" : " = ", second_setting);
}

bool Comparison::all_equal() const {
  return std::ranges::all_of(rows, [](const ComparedRow& row) { return row.equal; });
}

std::size_t Comparison::prompts_needed(std::size_t family) const {
  for (std::size_t n = 1; n <= kMaxExactFlips + 1; ++n)
    if (smallest_sign_flip_p(n, test) <= alpha() / static_cast<double>(family)) return n;
  return 0;
}

void judge(Comparison& comparison) {
  std::vector<double> p;
  for (const ComparedRow& row : comparison.rows) p.push_back(row.test.p);
  const std::vector<double> adjusted = holm_adjusted(p);
  const double alpha = comparison.alpha();
  const auto rejected = std::ranges::count_if(adjusted, [&](double value) { return value <= alpha; });
  for (std::size_t r = 0; r < p.size(); ++r) {
    ComparedRow& row = comparison.rows[r];
    row.adjusted_p = adjusted[r];
    const auto left = static_cast<double>(static_cast<std::ptrdiff_t>(p.size()) - rejected);
    if (adjusted[r] <= alpha)
      row.verdict = ChangeVerdict::changed;
    else if (!row.equal && smallest_sign_flip_p(row.prompts, comparison.test) > alpha / left)
      row.verdict = ChangeVerdict::too_few_prompts;
  }
}

Comparison compare_studies(const ResultsFile& first, const ResultsFile& second, const ComparisonRequest& request) {
  Comparison comparison{
      .first = file_of(first),
      .second = file_of(second),
      .model = {},
      .prompts = match_prompts(first, second, request.layers),
      .selectors = match_selectors(first, second, request.selectors, request.settings, request.same_bytes),
      .first_salient_delta = first.study().salient_delta,
      .second_salient_delta = second.study().salient_delta,
      .left_out = {},
      .one_counts_scan = {},
      .test = request.test,
      .rows = {},
      .layers = {},
      .heads = {}};
  if (request.same_bytes) match_bytes(first, second, comparison.prompts, request.settings, comparison.selectors.pairs);
  const std::vector<MatchedPrompt>& prompts = comparison.prompts.prompts;
  comparison.model = first.study().dumps[prompts.front().first.dump].model;
  std::set<int> layers;
  for (const MatchedPrompt& prompt : prompts) layers.insert(prompt.layers.begin(), prompt.layers.end());
  comparison.layers.assign(layers.begin(), layers.end());
  for (const MatchedSelector& pair : comparison.selectors.pairs)
    if (counts_scan(first.study().selectors[pair.first]) != counts_scan(second.study().selectors[pair.second]))
      comparison.one_counts_scan.push_back(pair.name());
  find_left_out(first, second, comparison);

  const std::vector<CellSeries> series = plan_rows(first, second, request, comparison);
  Collected collected(comparison);
  run_ordered<PromptDifferences>(
      static_cast<std::int64_t>(prompts.size()), request.threads,
      [&](std::int64_t p, PromptDifferences& out) {
        difference_prompt(first, second, comparison, series, prompts[static_cast<std::size_t>(p)], out);
      },
      [&](std::int64_t, PromptDifferences& out) { collected.add(out); });
  parallel_for(request.threads, comparison.rows.size(), [&](int, std::size_t row) { collected.test_row(row); });
  collected.finish_heads();
  judge(comparison);
  return comparison;
}

}  // namespace attest
