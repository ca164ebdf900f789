// Every metric with its axes; the formulas stand in the files named beside them.
#include "analysis/metrics/metric.h"

#include "analysis/metrics/kept_set.h"
#include "analysis/metrics/output_fidelity.h"
#include "analysis/metrics/rank_correlation.h"
#include "analysis/metrics/scan_error.h"
#include "analysis/metrics/score_statistics.h"

namespace attest {
namespace {

constexpr ScoreMetric kScoreMetrics[] = {
    {"lse", false, lse},         {"top1_top2_gap", false, top1_top2_gap}, {"score_std", false, score_std},
    {"entropy", false, entropy}, {"span_mass", true, span_mass},
};

constexpr auto kSetting = MetricAxes::query_head_setting;
constexpr auto kRow = MetricAxes::query_head;
constexpr auto kLambda = MetricAxes::query_head_lambda;

constexpr SelectorMetric kSelectorMetrics[] = {
    {"recall", kSetting, false, false, recall},
    {"output_error", kSetting, false, false, output_error},
    {"lse_error", kSetting, false, false, lse_error},
    {"mass_recall", kSetting, false, false, mass_recall},
    {"keep_ratio", kSetting, false, false, keep_ratio},
    {"salient_hit_rate", kSetting, false, false, salient_hit_rate},
    {"salient_hit_rate_fixed", kSetting, false, false, salient_hit_rate_fixed},
    {"salient_ratio", kSetting, false, false, salient_ratio},
    {"missed_salient_mass", kSetting, false, false, missed_salient_mass},
    {"dropped_gap", kSetting, false, false, dropped_gap},
    {"span_keep", kSetting, false, true, span_keep},
    {"span_mass_kept", kSetting, false, true, span_mass_kept},
    {"spearman", kRow, true, false, spearman_of_row},
    {"pearson", kRow, true, false, pearson_of_row},
    {"spearman_block16", kRow, true, false, spearman_block16},
    {"spearman_block128", kRow, true, false, spearman_block128},
    {"scan_error_mean", kRow, true, false, scan_error_mean},
    {"scan_error_std", kRow, true, false, scan_error_std},
    {"scan_error_max", kRow, true, false, scan_error_max},
    {"scan_error_tail", kLambda, true, false, scan_error_tail},
    {"scan_error_lower_tail", kLambda, true, false, scan_error_lower_tail},
};

}  // namespace

std::span<const ScoreMetric> score_metrics() { return kScoreMetrics; }
std::span<const SelectorMetric> selector_metrics() { return kSelectorMetrics; }

}  // namespace attest
