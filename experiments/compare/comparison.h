// What changed between two studies of the same prompts: one paired test per metric, selector and setting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/statistics/metric_statistic.h"
#include "analysis/statistics/sign_flip.h"
#include "experiments/compare/prompt_matching.h"
#include "experiments/compare/selector_matching.h"

namespace attest {

struct ComparisonRequest {
  std::vector<MetricStatistic> metrics;
  bool only_common_metrics = false;              ///< leaves out metrics that one file lacks instead of refusing them
  std::vector<std::string> selectors, settings;  ///< as match_selectors() takes them
  std::vector<std::pair<int, int>> layers;       ///< inclusive ranges; empty: all
  bool same_bytes = false;                       ///< match_bytes()
  SignFlipOptions test;
  int threads = 1;
};

enum class ChangeVerdict : std::uint8_t {
  changed,
  no_evidence,      ///< of a change
  too_few_prompts,  ///< no difference, however clear, could be told
};

/// The label for a selector without settings that stands beside a setting of another.
inline constexpr std::string_view kNoSetting = "no setting";

/// One metric at one setting of one selector. Labels are empty for a metric of the exact scores.
struct ComparedRow {
  MetricStatistic metric;
  std::string first_label, second_label;
  SettingKind kind = SettingKind::none;  ///< none: also of a metric that no setting changes
  std::string setting_label;
  std::string second_setting = {};                   ///< "delta 5": where it is another than the first
  std::optional<std::pair<double, double>> io = {};  ///< io_ratio of both, where bytes were matched
  std::size_t prompts = 0;                           ///< with a value in both
  std::size_t infinite = 0;                          ///< prompts left out because one of their values is infinite
  double first = 0, second = 0;                      ///< means over the prompts; NaN without prompts
  SignFlipResult test{};                             ///< of second - first
  double adjusted_p = 1;                             ///< by Holm over all rows
  bool equal = true;                                 ///< all cells, bit for bit
  ChangeVerdict verdict = ChangeVerdict::no_evidence;
  std::size_t heads = 0;  ///< into Comparison::heads

  std::string selector() const;  ///< "ffd", or "ffd=quest" for two labels
  std::string setting() const;   ///< "delta 5", "budget 1024 = delta 5"; empty without settings
};

/// Where a metric changed: description, not a test. [layers, heads] row-major; NaN where no cell is defined.
struct HeadDifferences {
  std::size_t heads = 0;                          ///< 1 for a metric of all heads together
  std::vector<double> mean;                       ///< over prompts of the mean over queries of R2 - R1
  std::vector<std::uint32_t> prompts, same_sign;  ///< those with a difference, and with one of the mean's sign
};

/// How a results file was made, by its manifest; empty where the manifest does not say.
struct ComparedFile {
  std::string path, version, git_commit, device;
};

struct Comparison {
  ComparedFile first, second;
  std::string model;
  MatchedPrompts prompts;
  MatchedSelectors selectors;
  double first_salient_delta = 0, second_salient_delta = 0;  ///< NaN if not known
  std::vector<std::pair<std::string, int>> left_out;         ///< (prompt, layer) that a study did not compute
  std::vector<std::string> one_counts_scan;  ///< selectors whose io_ratio has the scan in one file alone
  SignFlipOptions test;
  std::vector<ComparedRow> rows;       ///< by selector, setting, metric
  std::vector<int> layers;             ///< of any prompt, ascending
  std::vector<HeadDifferences> heads;  ///< one for each metric (whatever its statistics), selector and setting

  double alpha() const { return 1 - test.confidence; }
  bool all_equal() const;
  /// The fewest prompts with which a family of so many rows can have a change; 0 if no number of prompts can.
  std::size_t prompts_needed(std::size_t rows) const;
};

/// Adjusts the p-values of the rows and sets their verdicts. At best, a row that was not rejected could have been the
/// next one after the rejected rows.
void judge(Comparison& comparison);

/// Reads one prompt at a time per thread. Throws InputError if the studies cannot be compared, UsageError for a request
/// that they do not have.
Comparison compare_studies(const ResultsFile& first, const ResultsFile& second, const ComparisonRequest& request);

}  // namespace attest
