// The table of all metrics: name, axes, unit, better direction, definition, needs, functions. The formulas are in the
// files of the functions.
#include "analysis/metrics/metric.h"

#include <algorithm>

#include "analysis/metrics/io_ratio.h"
#include "analysis/metrics/kept_set.h"
#include "analysis/metrics/output_fidelity.h"
#include "analysis/metrics/predicted_loss.h"
#include "analysis/metrics/rank_correlation.h"
#include "analysis/metrics/scan_error.h"
#include "analysis/metrics/score_statistics.h"
#include "analysis/metrics/span_tokens.h"
#include "kernels/device/on_cuda.h"

namespace attest {
namespace {

constexpr auto kRow = MetricAxes::query_head;
constexpr auto kSetting = MetricAxes::query_head_setting;
constexpr auto kLambda = MetricAxes::query_head_lambda;
constexpr auto kLayer = MetricAxes::query_setting;
constexpr auto kLayerTokens = MetricAxes::query_setting_token;

constexpr MetricRange kShare{.min = 0, .max = 1, .may_be_nan = false}, kShareOrNan{.min = 0, .max = 1};
constexpr MetricRange kNotNegative{.min = 0, .may_be_nan = false}, kNotNegativeOrNan{.min = 0};
constexpr MetricRange kCosine{.min = -1, .max = 1};
constexpr MetricRange kAny{.may_be_nan = false};
constexpr MetricRange kOfEstimate{.may_be_infinite = true}, kNotNegativeOfEstimate{.min = 0, .may_be_infinite = true};

constexpr MetricNeeds kNothing{};
constexpr MetricNeeds kEstimate{.estimate = true};
constexpr MetricNeeds kScoreEstimate{.estimate = true, .scores = true};
constexpr MetricNeeds kSpans{.spans = true};
constexpr MetricNeeds kFewSpanTokens{.spans = true, .few_span_tokens = true};
constexpr MetricNeeds kSinks{.sinks = true};
constexpr MetricNeeds kWeights{.weights = true};
constexpr MetricNeeds kGradients{.gradients = true};

template <auto* cpu, auto* cuda>
constexpr auto of_scores = ScoreFunctions{cpu, on_cuda<cuda>()};
template <auto* cpu, auto* cuda>
constexpr auto of_selector = SelectorFunctions{cpu, on_cuda<cuda>()};
template <auto* cpu, auto* cuda_combine>
constexpr auto of_span_tokens = SpanTokenFunctions{cpu, on_cuda<cuda_span_bits>(), on_cuda<cuda_combine>()};

using Statistic = SummaryColumn::Statistic;
constexpr SummaryColumn kRecallColumns[] = {{Statistic::mean, "mean_recall", "recall"},
                                            {Statistic::min, "min_recall", "min"}};
constexpr SummaryColumn kLseErrorColumns[] = {{Statistic::max, "max_lse_error", "max LSE err"}};
constexpr SummaryColumn kKeepColumns[] = {{Statistic::mean, "keep_ratio", "keep"}};
constexpr SummaryColumn kIoColumns[] = {{Statistic::mean, "io_ratio", "io"}};
constexpr SummaryColumn kSpearmanColumns[] = {{Statistic::mean, "spearman", "Spearman"}};
constexpr SummaryColumn kHitColumns[] = {{Statistic::mean, "salient_hit_rate", "salient hits"}};

constexpr Metric kMetrics[] = {
    {{"lse", kRow, "nats", Better::neither, "log sum of exp(s), the learned sink included", kAny, "attest"},
     kNothing,
     of_scores<lse, cuda_score_statistics>},
    {{"top1_top2_gap", kRow, "nats", Better::neither, "largest minus second largest score; NaN for a single key",
      kNotNegativeOrNan, "Faster Than Flash, appendix Failure-Case Profiling"},
     kNothing,
     of_scores<top1_top2_gap, cuda_score_statistics>},
    {{"score_std", kRow, "nats", Better::neither, "population standard deviation of the scores", kNotNegative,
      "Faster Than Flash, appendix Failure-Case Profiling"},
     kNothing,
     of_scores<score_std, cuda_score_statistics>},
    {{"entropy", kRow, "nats", Better::neither, "entropy of softmax(s)", kNotNegative, "attest"},
     kNothing,
     of_scores<entropy, cuda_score_statistics>},
    {{"span_mass", kRow, "ratio", Better::neither, "exact mass on the span tokens that the query sees; NaN if none",
      kShareOrNan, "attest"},
     kSpans,
     of_scores<span_mass, cuda_score_statistics>},
    {{"sink_mass", kRow, "ratio", Better::neither, "share of the softmax that the learned sink takes, exp(b - LSE)",
      kShareOrNan, "attest"},
     kSinks,
     of_scores<sink_mass, cuda_score_statistics>},
    {{"head_weight", kRow, "logits", Better::neither,
      "the head's weight, the rms of its gradients over the sample's rows", kNotNegative, "attest"},
     kWeights,
     of_scores<head_weight, cuda_head_weight>},

    {{"recall", kSetting, "cosine", Better::higher, "cosine of the selector's and the exact output", kCosine,
      "Faster Than Flash, Retrieval Fidelity Analysis"},
     kNothing,
     of_selector<recall, cuda_output_fidelity>,
     kRecallColumns},
    {{"recall_layer", kLayer, "cosine", Better::higher, "cosine of the two outputs, heads of the layer concatenated",
      kCosine, "attest"},
     kNothing,
     LayerFunctions{recall_sums, recall_of_sums, on_cuda<cuda_output_fidelity>(), on_cuda<cuda_recall_layer>()}},
    {{"output_error", kSetting, "ratio", Better::lower, "norm of the outputs' difference over the exact output's norm",
      kNotNegativeOrNan, "attest"},
     kNothing,
     of_selector<output_error, cuda_output_fidelity>},
    {{"weighted_error_head", kSetting, "logits", Better::lower,
      "norm of the outputs' difference times the head's weight, the rms of its gradients over the sample's rows",
      kNotNegative, "attest"},
     kWeights,
     of_selector<weighted_error_head, cuda_output_fidelity>},
    {{"predicted_loss_head", kSetting, "logits", Better::lower,
      "what the head's error takes from the sum of the answer's margins, predicted from output gradients", kAny,
      "attest"},
     kGradients,
     of_selector<predicted_loss_head, cuda_output_fidelity>},
    {{"lse_error", kSetting, "nats", Better::lower, "absolute difference of the log-sum-exps", kNotNegative,
      "Faster Than Flash, Retrieval Fidelity Analysis"},
     kNothing,
     of_selector<lse_error, cuda_output_fidelity>,
     kLseErrorColumns},
    {{"mass_recall", kSetting, "ratio", Better::higher, "exact attention mass that was kept", kShare, "attest"},
     kNothing,
     of_selector<mass_recall, cuda_kept_set>},
    {{"keep_ratio", kSetting, "ratio", Better::lower, "tokens kept for the head, after the GQA policy, over L", kShare,
      "Faster Than Flash, appendix Head-Wise Variation", /*is_cost=*/true},
     kNothing,
     of_selector<keep_ratio, cuda_kept_set>,
     kKeepColumns},
    {{"io_ratio", kSetting, "ratio", Better::lower, "bytes read for the KV head over those of a dense 16-bit read",
      kNotNegative, "Faster Than Flash, Quality vs. IO Budget", /*is_cost=*/true},
     kNothing,
     of_selector<io_ratio, cuda_io_ratio>,
     kIoColumns},

    {{"spearman", kRow, "correlation", Better::higher, "Spearman's rho of estimate and scores over the covered tokens",
      kCosine, "Faster Than Flash, Retrieval Fidelity Analysis"},
     kEstimate,
     of_selector<spearman_of_row, cuda_rank_correlation>,
     kSpearmanColumns},
    {{"pearson", kRow, "correlation", Better::higher, "Pearson's r of estimate and scores over the covered tokens",
      kCosine, "attest"},
     kEstimate,
     of_selector<pearson_of_row, cuda_scan_error>},
    {{"spearman_block16", kRow, "correlation", Better::higher, "Spearman's rho of the maxima over blocks of 16 tokens",
      kCosine, "attest"},
     kEstimate,
     of_selector<spearman_block16, cuda_rank_correlation>},
    {{"spearman_block128", kRow, "correlation", Better::higher,
      "Spearman's rho of the maxima over blocks of 128 tokens", kCosine, "attest"},
     kEstimate,
     of_selector<spearman_block128, cuda_rank_correlation>},
    {{"scan_error_mean", kRow, "nats", Better::neither, "mean of estimate minus score over the covered tokens",
      kOfEstimate, "Faster Than Flash, appendix Error Analysis"},
     kScoreEstimate,
     of_selector<scan_error_mean, cuda_scan_error>},
    {{"scan_error_std", kRow, "nats", Better::lower, "population standard deviation of estimate minus score",
      kNotNegativeOfEstimate, "Faster Than Flash, appendix Error Analysis"},
     kScoreEstimate,
     of_selector<scan_error_std, cuda_scan_error>},
    {{"scan_error_max", kRow, "nats", Better::lower, "largest absolute difference of estimate and score",
      kNotNegativeOfEstimate, "Faster Than Flash, appendix Error Analysis"},
     kScoreEstimate,
     of_selector<scan_error_max, cuda_scan_error>},
    {{"scan_error_tail", kLambda, "ratio", Better::lower, "share of tokens whose estimate is off by lambda or more",
      kShareOrNan, "Faster Than Flash, appendix Error Analysis"},
     kScoreEstimate,
     of_selector<scan_error_tail, cuda_scan_error>},
    {{"scan_error_lower_tail", kLambda, "ratio", Better::lower, "share of tokens with estimate - score <= -lambda",
      kShareOrNan, "Faster Than Flash, appendix Error Analysis"},
     kScoreEstimate,
     of_selector<scan_error_lower_tail, cuda_scan_error>},

    {{"salient_hit_rate", kSetting, "ratio", Better::higher, "kept share of the tokens within delta_s of the peak",
      kShare, "Faster Than Flash, appendix Head-Wise Variation, which does not define it"},
     kNothing,
     of_selector<salient_hit_rate, cuda_kept_set>,
     kHitColumns},
    {{"salient_hit_rate_fixed", kSetting, "ratio", Better::higher, "salient_hit_rate with delta_s = --salient-delta",
      kShare, "attest"},
     kNothing,
     of_selector<salient_hit_rate_fixed, cuda_kept_set>},
    {{"salient_ratio", kSetting, "ratio", Better::neither, "tokens within delta_s of the peak over L", kShare,
      "attest"},
     kNothing,
     of_selector<salient_ratio, cuda_kept_set>},
    {{"missed_salient_mass", kSetting, "ratio", Better::lower, "exact mass of salient tokens that were dropped", kShare,
      "attest"},
     kNothing,
     of_selector<missed_salient_mass, cuda_kept_set>},
    {{"dropped_gap", kSetting, "nats", Better::higher, "peak minus the best dropped score; NaN if nothing was dropped",
      kNotNegativeOrNan, "Faster Than Flash, Reliability of Top-delta Selection"},
     kNothing,
     of_selector<dropped_gap, cuda_kept_set>},
    {{"span_keep", kSetting, "ratio", Better::higher, "kept share of the visible span tokens; NaN if none", kShareOrNan,
      "attest"},
     kSpans,
     of_selector<span_keep, cuda_kept_set>},
    {{"span_mass_kept", kSetting, "ratio", Better::higher, "exact mass on kept span tokens; NaN if none is visible",
      kShareOrNan, "attest"},
     kSpans,
     of_selector<span_mass_kept, cuda_kept_set>},
    {{"span_lost", kLayer, "ratio", Better::lower, "share of the visible span tokens that no head of the layer keeps",
      kShareOrNan, "attest"},
     kSpans,
     of_span_tokens<span_lost, cuda_span_lost>},
    {{"span_token_heads", kLayerTokens, "heads", Better::higher,
      "query heads of the layer that keep a span token; NaN if the query does not see it", kNotNegativeOrNan, "attest"},
     kFewSpanTokens,
     of_span_tokens<span_token_heads, cuda_span_token_heads>},
};

}  // namespace

bool Metric::has_cuda_code() const {
  return std::visit(
      [](const auto& f) {
        if constexpr (requires { f.cuda_combine; }) return f.cuda != nullptr && f.cuda_combine != nullptr;
        return f.cuda != nullptr;
      },
      functions);
}

std::span<const Metric> all_metrics() { return kMetrics; }

const Metric* find_metric(std::string_view name) {
  const auto found = std::ranges::find_if(kMetrics, [&](const Metric& metric) { return metric.info.name == name; });
  return found == std::ranges::end(kMetrics) ? nullptr : found;
}

}  // namespace attest
