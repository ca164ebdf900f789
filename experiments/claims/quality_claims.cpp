// Claims about how well FFD reproduces attention.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/claims/claim.h"
#include "experiments/claims/measured.h"
#include "experiments/paper/quality_curves.h"
#include "experiments/paper/selector_choice.h"
#include "experiments/paper/words.h"

namespace attest {
namespace {

constexpr const char* kBoth = "--selector ffd --selector quest";

/// The first ffd and the first quest, compared over the layers that are dense in neither.
struct Pair2 {
  QualityCurve ffd, quest;
  std::set<int> dense;
};

std::optional<Pair2> ffd_and_quest(const ModelStudy& study) {
  const PooledSelector *ffd = first_selector(study, "ffd"), *quest = first_selector(study, "quest");
  if (!ffd || !quest) return std::nullopt;
  const std::set<int> dense = study.dense_layers({ffd->group.label, quest->group.label});
  return Pair2{quality_curve(study, *ffd, dense), quality_curve(study, *quest, dense), dense};
}

/// FFD against Quest at every io ratio that is a setting of one of them and within the range of both. `better(a, b)`:
/// the value a is at least as good as b.
ClaimResult compare_at_equal_io(const ModelStudy& study, double (*value)(const QualityPoint&),
                                bool (*better)(double, double), const std::string& what) {
  const std::optional<Pair2> pair = ffd_and_quest(study);
  if (!pair) return {.evidence = "needs ffd and quest", .run_options = kBoth};
  std::set<double> points;
  for (const QualityCurve* curve : {&pair->ffd, &pair->quest})
    for (const QualityPoint& point : curve->points)
      if (at_io(pair->ffd, point.io.mean, value) && at_io(pair->quest, point.io.mean, value))
        points.insert(point.io.mean);
  if (points.empty())
    return {.evidence = "FFD and Quest read no common amount of bytes",
            .run_options = fmt::format("{} --delta 1:12:1 --budget 64,128,256,512,1024,2048,50%", kBoth)};
  std::size_t won = 0;
  for (double io : points) won += better(*at_io(pair->ffd, io, value), *at_io(pair->quest, io, value)) ? 1 : 0;
  const double io = shared_io(pair->ffd, pair->quest).value();
  int samples = 0, samples_won = 0;
  for (const std::string& sample : study.sample_names()) {
    const auto ours = at_io(quality_curve(study, *pair->ffd.selector, pair->dense, sample), io, value);
    const auto theirs = at_io(quality_curve(study, *pair->quest.selector, pair->dense, sample), io, value);
    if (!ours || !theirs) continue;
    ++samples;
    samples_won += better(*ours, *theirs) ? 1 : 0;
  }
  return {.verdict = won == points.size() ? Verdict::holds : Verdict::does_not_hold,
          .evidence =
              fmt::format("{} is better for FFD at {} of {} io ratios from {:.3g} to {:.3g}; at io {:.2g} it is "
                          "{:.4g} against {:.4g}, better in {} of {}",
                          what, won, points.size(), *points.begin(), *points.rbegin(), io, *at_io(pair->ffd, io, value),
                          *at_io(pair->quest, io, value), samples_won, counted(samples, "sample"))};
}

ClaimResult recall_above_quest(const ModelStudy& study) {
  return compare_at_equal_io(
      study, [](const QualityPoint& p) { return p.recall.mean; }, [](double a, double b) { return a >= b; },
      "mean recall");
}

ClaimResult lse_below_quest(const ModelStudy& study) {
  return compare_at_equal_io(
      study, [](const QualityPoint& p) { return p.lse_error_max; }, [](double a, double b) { return a <= b; },
      "the largest LSE error");
}

/// Layers in which FFD's mean of the metric is above Quest's.
ClaimResult correlation_above_quest(const ModelStudy& study, std::string_view metric) {
  const PooledSelector *ffd = first_selector(study, "ffd"), *quest = first_selector(study, "quest");
  const std::string options = "--selector ffd --selector quest:dense_layers=0";
  if (!ffd || !quest) return {.evidence = "needs ffd and quest", .run_options = options};
  const std::vector<SampleCells> ours = cells_at(study, *ffd, metric, 0), theirs = cells_at(study, *quest, metric, 0);
  const std::set<int> dense = study.dense_layers({ffd->group.label, quest->group.label});
  int layers = 0, won = 0;
  for (int layer : layers_of(ours)) {
    const Moments a = describe(of_layer(ours, layer)), b = describe(of_layer(theirs, layer));
    if (dense.contains(layer) || a.count == 0 || b.count == 0) continue;
    ++layers;
    won += a.mean > b.mean ? 1 : 0;
  }
  if (layers == 0) return {.evidence = "no layer in which both have an estimate", .run_options = options};
  return {.verdict = won == layers ? Verdict::holds : Verdict::does_not_hold,
          .evidence = fmt::format("higher in {} of {}{}; over all cells {} against {}", won, counted(layers, "layer"),
                                  dense.empty() ? "" : fmt::format(" ({} left out: dense)", layers_in_words(dense)),
                                  measure(ours).text(quality), measure(theirs).text(quality)),
          .run_options = dense.empty() ? "" : options};
}

ClaimResult token_ranks(const ModelStudy& study) { return correlation_above_quest(study, "spearman"); }
ClaimResult block_ranks(const ModelStudy& study) { return correlation_above_quest(study, "spearman_block128"); }

/// A mean at most so far below 1 is called near-perfect.
constexpr double kNearPerfect = 0.99;

ClaimResult recall_at(const ModelStudy& study, double delta) {
  const PooledSelector* ffd = ffd_at(study, delta);
  const std::string options = fmt::format("--selector ffd --delta {:g}", delta);
  if (!ffd) return {.evidence = fmt::format("needs ffd at delta {:g}", delta), .run_options = options};
  const auto cells =
      cells_at(study, *ffd, "recall", *index_of(ffd->group, delta), study.dense_layers({ffd->group.label}));
  const Measured recall = measure(cells);
  if (!recall.exists()) return {.evidence = "no cell has a recall"};
  const bool sure = !is_drawn(recall.interval) || recall.interval.low >= kNearPerfect;
  return {.verdict = recall.interval.mean < kNearPerfect ? Verdict::does_not_hold
                     : sure                              ? Verdict::holds
                                                         : Verdict::cannot_tell,
          .evidence = fmt::format("mean recall {}; lowest of all cells {}", recall.text(quality),
                                  quality(describe(cells).min))};
}

ClaimResult near_perfect_at_5(const ModelStudy& study) { return recall_at(study, 5); }
ClaimResult near_perfect_at_7(const ModelStudy& study) { return recall_at(study, 7); }

ClaimResult no_early_exception(const ModelStudy& study) {
  const PooledSelector* ffd = first_top_delta_ffd(study, [](const PooledSelector& selector) {
    return selector.option("dense_layers") == "0" && index_of(selector.group, 5).has_value();
  });
  const std::string options = "--selector ffd:dense_layers=0 --delta 5";
  if (!ffd) return {.evidence = "needs ffd with dense_layers=0 at delta 5", .run_options = options};
  const auto cells = cells_at(study, *ffd, "recall", *index_of(ffd->group, 5));
  double early = 2, rest = 2;
  int early_layer = -1, rest_layer = -1;
  for (int layer : layers_of(cells)) {
    const Moments moments = describe(of_layer(cells, layer));
    if (moments.count == 0) continue;
    double& least = layer < 2 ? early : rest;
    if (moments.mean < least) (layer < 2 ? early_layer : rest_layer) = layer;
    least = std::min(least, moments.mean);
  }
  if (early_layer < 0 || rest_layer < 0) return {.evidence = "needs layers 0 or 1, and others", .run_options = options};
  return {
      .verdict = early >= std::min(rest, kNearPerfect) ? Verdict::holds : Verdict::does_not_hold,
      .evidence = fmt::format("mean recall at delta 5: {} in layer {}, the worse of the first two; {} in layer {}, the "
                              "worst of the others",
                              quality(early), early_layer, quality(rest), rest_layer)};
}

/// The recall of a rule at a mean keep ratio, interpolated.
std::optional<double> recall_at_keep(const QualityCurve& curve, double keep) {
  for (std::size_t i = 0; i + 1 < curve.points.size(); ++i) {
    const QualityPoint &a = curve.points[i], &b = curve.points[i + 1];
    if (!(a.keep.mean <= keep && keep <= b.keep.mean)) continue;
    const double part = b.keep.mean > a.keep.mean ? (keep - a.keep.mean) / (b.keep.mean - a.keep.mean) : 0;
    return a.recall.mean + part * (b.recall.mean - a.recall.mean);
  }
  return std::nullopt;
}

ClaimResult top_delta_beats_top_k(const ModelStudy& study) {
  const PooledSelector *delta = first_selector(study, "topdelta"), *k = first_selector(study, "topk");
  const std::string options = "--selector topdelta --selector topk --delta 1:12:1 --budget 16,64,256,1024";
  if (!delta || !k) return {.evidence = "needs the oracles topdelta and topk", .run_options = options};
  const std::set<int> dense = study.dense_layers({delta->group.label, k->group.label});
  const QualityCurve ours = quality_curve(study, *delta, dense), theirs = quality_curve(study, *k, dense);
  int points = 0, won = 0;
  std::string example;
  for (const QualityPoint& point : ours.points) {
    const std::optional<double> other = recall_at_keep(theirs, point.keep.mean);
    if (!other) continue;
    ++points;
    won += point.recall.mean >= *other ? 1 : 0;
    if (example.empty() || point.setting_label == "5")
      example = fmt::format("at delta {} (keep {}) {} against {}", point.setting_label, percent(point.keep.mean),
                            quality(point.recall.mean), quality(*other));
  }
  if (points == 0) return {.evidence = "the two keep no common share of tokens", .run_options = options};
  return {.verdict = won == points ? Verdict::holds : Verdict::does_not_hold,
          .evidence = fmt::format("mean recall of top-delta is higher at {} of {} matched mean keep ratios; {}", won,
                                  points, example)};
}

}  // namespace

std::vector<PaperClaim> quality_claims() {
  return {
      {"At equal bytes FFD's recall is above Quest's, at every budget", "Figure Quality vs. IO Budget", "quality_vs_io",
       recall_above_quest},
      {"At equal bytes FFD's largest LSE error is below Quest's, at every budget", "Figure Quality vs. IO Budget",
       "quality_vs_io", lse_below_quest},
      {"FFD's estimate has the higher Spearman correlation with exact scores at every layer",
       "Figure layer-wise correlation", "layer_correlation", token_ranks},
      {"The same for the maxima of blocks of 128 tokens, which is what selection sees", "Figure layer-wise correlation",
       "layer_correlation", block_ranks},
      {"Delta = 5 gives near-perfect recall (at least 0.99)", "App. false-negative bound; Setup", "delta_validation",
       near_perfect_at_5},
      {"Delta = 7 gives near-perfect recall (at least 0.99)", "App. false-negative bound; Setup", "delta_validation",
       near_perfect_at_7},
      {"FFD needs no exception for the first two layers", "App. headwise", "early_layers", no_early_exception},
      {"Top-delta adapts to the sharpness of the distribution: at equal mean keep it loses less than top-k",
       "Figure comparison (top-k, top-p, top-delta)", "rule_comparison", top_delta_beats_top_k},
  };
}

}  // namespace attest
