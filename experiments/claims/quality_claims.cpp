// Claims about how well FFD reproduces attention.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "dumps/base/join.h"
#include "experiments/claims/claim.h"
#include "experiments/claims/measured.h"
#include "experiments/study_view/quality_curves.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

double io_of(const QualityPoint& p) { return p.io.mean; }
double keep_of(const QualityPoint& p) { return p.keep.mean; }
double recall_of(const QualityPoint& p) { return p.recall.mean; }
double lse_of(const QualityPoint& p) { return p.lse_error_max; }

/// How two curves are compared.
struct CurveQuestion {
  const char *first, *second;  ///< names of the selectors
  ValueOf at;                  ///< what is matched
  const char* matched;         ///< its name
  ValueOf value;
  bool higher_is_better;
  const char* what;  ///< the name of the value
  const char* run_options;
  bool alike = false;  ///< two rules on the same scores: their options agree but for dense layers
};

/// The first two selectors that the question is about; null if there are none.
std::pair<const PooledSelector*, const PooledSelector*> pair_of(const ModelStudy& study, const CurveQuestion& q) {
  for (const PooledSelector& first : study.selectors()) {
    if (first.group.name != q.first || shifts_settings(first.group)) continue;
    const PooledSelector* const second = first_selector(study, q.second, [&](const PooledSelector& other) {
      return !q.alike || agree_but_in(first, other, {"dense_layers", "settings_file"});
    });
    if (second) return {&first, second};
  }
  return {};
}

/// The numbers that are a setting of one of the curves and within the range of both.
std::set<double> matched_numbers(const QualityCurve& ours, const QualityCurve& theirs, const CurveQuestion& q) {
  std::set<double> numbers;
  for (const QualityCurve* one : {&ours, &theirs})
    for (const QualityPoint& point : one->points)
      if (point.is_compared && value_at(ours, q.at(point), q.at, q.value) &&
          value_at(theirs, q.at(point), q.at, q.value))
        numbers.insert(q.at(point));
  return numbers;
}

/// By how much the first curve is better at a matched number; nothing outside of the range of one of the two.
std::optional<double> gain(const QualityCurve& ours, const QualityCurve& theirs, double at, const CurveQuestion& q) {
  const auto x = value_at(ours, at, q.at, q.value), y = value_at(theirs, at, q.at, q.value);
  return x && y ? std::optional((q.higher_is_better ? 1 : -1) * (*x - *y)) : std::nullopt;
}

/// Compares two selectors sample by sample at every matched number, in the layers that are dense in neither.
ClaimResult compare_curves(const ModelStudy& study, const CurveQuestion& q) {
  const auto [first, second] = pair_of(study, q);
  if (!first)
    return {.evidence = fmt::format("needs {} and {}{}", q.first, q.second, q.alike ? " with the same options" : ""),
            .run_options = q.run_options};
  const std::set<int> dense = study.dense_layers({first->group.label, second->group.label});
  const std::set<SampleKey> samples = study.samples_of_both(*first, *second);
  if (samples.empty())
    return {.evidence = fmt::format("needs {} and {} on the same layers of the same prompts", q.first, q.second),
            .run_options = q.run_options};
  const auto curve = [&](const PooledSelector& selector, const std::set<SampleKey>& of) {
    return quality_curve(study, selector, dense, of, kNoIntervals);
  };
  const QualityCurve ours = curve(*first, samples), theirs = curve(*second, samples);
  const std::set<double> points = matched_numbers(ours, theirs, q);
  if (points.empty())
    return {.evidence = fmt::format("{} and {} have no {} in common", q.first, q.second, q.matched),
            .run_options = q.run_options};
  std::vector<SampleNumbers> parts(points.size());
  for (const SampleKey& sample : samples) {
    const QualityCurve a = curve(*first, {sample}), b = curve(*second, {sample});
    std::size_t part = 0;
    for (const double at : points) {
      if (const auto found = gain(a, b, at, q)) parts[part][sample] = *found;
      ++part;
    }
  }
  // At the ends of the range few samples read as much or as little.
  std::erase_if(parts, [](const SampleNumbers& part) { return part.size() < kFewestClusters; });
  const JudgedParts judged = judged_parts(parts);
  const std::string unjudged =
      parts.size() == points.size()
          ? ""
          : fmt::format(" ({} reached by fewer than {} samples)", points.size() - parts.size(), kFewestClusters);
  const auto won = std::ranges::count_if(points, [&](double at) { return *gain(ours, theirs, at, q) >= 0; });
  const double shown = *std::next(points.begin(), static_cast<std::ptrdiff_t>(points.size() / 2));
  return {.verdict = judged.verdict,
          .evidence = fmt::format(
              "{} is better for {} at {} of {} {}s from {:.3g} to {:.3g}, {}{}; at {:.2g} it is {:.4g} against {:.4g}",
              q.what, q.first, won, points.size(), q.matched, *points.begin(), *points.rbegin(), judged.text(),
              unjudged, shown, *value_at(ours, shown, q.at, q.value), *value_at(theirs, shown, q.at, q.value)),
          .subject = fmt::format("{} and {}{}, {}", first->group.label, second->group.label,
                                 dense.empty() ? "" : fmt::format(" without {}", layers_in_words(dense)),
                                 counted(static_cast<std::int64_t>(samples.size()), "sample"))};
}

constexpr const char* kIoOptions =
    "--selector ffd --selector quest --delta 1:12:1 --budget 64,128,256,512,1024,2048,50%";

ClaimResult recall_above_quest(const ModelStudy& study) {
  return compare_curves(study, {"ffd", "quest", io_of, "io ratio", recall_of, true, "mean recall", kIoOptions});
}

ClaimResult lse_below_quest(const ModelStudy& study) {
  return compare_curves(study, {"ffd", "quest", io_of, "io ratio", lse_of, false, "the largest LSE error", kIoOptions});
}

ClaimResult top_delta_beats_top_k(const ModelStudy& study) {
  return compare_curves(study, {"topdelta", "topk", keep_of, "mean keep ratio", recall_of, true, "mean recall",
                                "--selector topdelta --selector topk --delta 1:12:1 --budget 16,64,256,1024", true});
}

/// The number of layers of the model; its dumps may have fewer.
int num_layers(const ModelStudy& study) {
  int layers = 0;
  for (const PlacedSample& sample : study.samples()) layers = std::max(layers, sample.study_dump().num_layers);
  return layers;
}

/// The layers in which FFD's mean of the metric is above Quest's. A claim about every layer does not hold because some
/// do.
ClaimResult correlation_above_quest(const ModelStudy& study, std::string_view metric) {
  const PooledSelector *ffd = first_selector(study, "ffd"), *quest = first_selector(study, "quest");
  const std::string options = "--selector ffd --selector quest:dense_layers=0";
  if (!ffd || !quest) return {.evidence = "needs ffd and quest", .run_options = options};
  const std::set<SampleKey> samples = study.samples_of_both(*ffd, *quest);
  if (samples.empty())
    return {.evidence = "needs ffd and quest on the same layers of the same prompts", .run_options = options};
  const auto cells = [&](const PooledSelector& selector, const std::set<int>& except) {
    return of_samples(cells_at(study, selector, metric, 0, except), samples);
  };
  const std::vector<SampleCells> ours = cells(*ffd, {}), theirs = cells(*quest, {});
  const std::set<int> dense = study.dense_layers({ffd->group.label, quest->group.label});
  std::vector<SampleNumbers> parts;
  std::set<int> compared;
  int won = 0;
  for (const int layer : layers_of(ours)) {
    const auto a = of_layer(ours, layer), b = of_layer(theirs, layer);
    SampleNumbers layer_parts = differences(sample_means(a), sample_means(b));
    if (dense.contains(layer) || layer_parts.empty()) continue;
    won += describe(a).mean > describe(b).mean ? 1 : 0;
    parts.push_back(std::move(layer_parts));
    compared.insert(layer);
  }
  if (parts.empty()) return {.evidence = "no layer in which both have an estimate", .run_options = options};
  JudgedParts judged = judged_parts(parts);
  std::set<int> others;  // not compared
  for (const int layer : layers_of(ours))
    if (!compared.contains(layer)) others.insert(layer);
  const Measured a = measure(cells(*ffd, others)), b = measure(cells(*quest, others));
  const int layers = num_layers(study);
  const bool all = static_cast<int>(parts.size()) == layers;
  if (judged.verdict == Verdict::holds && !all) judged.verdict = Verdict::cannot_tell;
  return {.verdict = judged.verdict,
          .evidence = fmt::format("higher in {} of {}{}{}, {}; over their cells {} against {}", won,
                                  counted(static_cast<std::int64_t>(parts.size()), "layer"),
                                  all ? "" : fmt::format(" (the model has {})", layers),
                                  dense.empty() ? "" : fmt::format(" ({} left out: dense)", layers_in_words(dense)),
                                  judged.text(), a.text(quality), b.text(quality)),
          .run_options = dense.empty() ? "" : options,
          .subject = fmt::format("{} and {}, {}, {}", ffd->group.label, quest->group.label, layers_in_words(compared),
                                 counted(static_cast<std::int64_t>(samples.size()), "sample"))};
}

ClaimResult token_ranks(const ModelStudy& study) { return correlation_above_quest(study, "spearman"); }
ClaimResult block_ranks(const ModelStudy& study) { return correlation_above_quest(study, "spearman_block128"); }

/// The least mean recall that is called near-perfect.
constexpr double kNearPerfect = 0.99;

ClaimResult recall_at(const ModelStudy& study, double delta) {
  const PooledSelector* ffd = ffd_at(study, delta);
  const std::string options = fmt::format("--selector ffd --delta {:g}", delta);
  if (!ffd) return {.evidence = fmt::format("needs ffd at delta {:g}", delta), .run_options = options};
  const std::size_t setting = *index_of(ffd->group, delta);
  const auto cells = cells_at(study, *ffd, "recall", setting, study.dense_layers({ffd->group.label}));
  const Measured recall = measure(cells);
  if (!recall.exists()) return {.evidence = "no cell has a recall"};
  return {.verdict = judged(recall.interval, kNearPerfect),
          .evidence =
              fmt::format("mean recall {}; lowest of all cells {}", recall.text(quality), quality(describe(cells).min)),
          .subject = subject_of(*ffd, setting, cells)};
}

ClaimResult near_perfect_at_5(const ModelStudy& study) { return recall_at(study, 5); }
ClaimResult near_perfect_at_7(const ModelStudy& study) { return recall_at(study, 7); }

/// Both of the first two layers must be there: one alone says nothing about the other.
ClaimResult no_early_exception(const ModelStudy& study) {
  const PooledSelector* ffd = first_top_delta_ffd(study, [](const PooledSelector& selector) {
    return selector.option("dense_layers") == "0" && index_of(selector.group, 5) && nats_per_delta(selector) == 1.0;
  });
  const std::string options = "--selector ffd:dense_layers=0 --delta 5";
  if (!ffd) return {.evidence = "needs ffd with dense_layers=0 at delta 5", .run_options = options};
  const std::size_t setting = *index_of(ffd->group, 5);
  const auto cells = cells_at(study, *ffd, "recall", setting);
  SampleNumbers worst;  // of the layers from 2 on, whose mean is the lowest
  double minimum = 2;
  int worst_layer = -1;
  std::vector<int> early;
  for (const int layer : layers_of(cells)) {
    const std::vector<SampleCells> own = of_layer(cells, layer);
    const Moments moments = describe(own);
    if (moments.count == 0) continue;
    if (layer < 2) early.push_back(layer);
    if (layer < 2 || moments.mean >= minimum) continue;
    minimum = moments.mean;
    worst = sample_means(own);
    worst_layer = layer;
  }
  if (early.size() < 2 || worst_layer < 0)
    return {.evidence = "needs layers 0 and 1, and others", .run_options = options};
  int hold = 0, refuted = 0;
  std::string evidence = "mean recall at delta 5: ";
  for (const int layer : early) {
    const SampleNumbers own = sample_means(of_layer(cells, layer));
    const Verdict near_perfect = judged(measure(own).interval, kNearPerfect),
                  as_others = judged(measure(differences(own, worst)).interval, 0);
    hold += near_perfect == Verdict::holds || as_others == Verdict::holds ? 1 : 0;
    refuted += near_perfect == Verdict::does_not_hold && as_others == Verdict::does_not_hold ? 1 : 0;
    evidence += fmt::format("{} in layer {}; ", measure(own).text(quality), layer);
  }
  return {.verdict = refuted > 0 ? Verdict::does_not_hold
                     : hold == 2 ? Verdict::holds
                                 : Verdict::cannot_tell,
          .evidence = evidence + fmt::format("{} in layer {}, the worst of the others", quality(minimum), worst_layer),
          .subject = subject_of(*ffd, setting, cells)};
}

}  // namespace

std::vector<PaperClaim> quality_claims() {
  constexpr const char* kEveryPoint =
      "at every one that five samples reach, interpolated between settings, the interval of their difference is on its "
      "side; clearly on the other at one refutes";
  constexpr const char* kEveryLayer =
      "in every layer of the model the interval of the samples' difference is above 0; clearly below in one refutes";
  constexpr const char* kMean = "mean over the layers that are not dense at least 0.99";
  return {
      {"At equal bytes FFD's recall is above Quest's, at every budget", "Figure Quality vs. IO Budget", "quality_vs_io",
       kEveryPoint, recall_above_quest},
      {"At equal bytes FFD's largest LSE error is below Quest's, at every budget", "Figure Quality vs. IO Budget",
       "quality_vs_io", kEveryPoint, lse_below_quest},
      {"FFD's estimate has the higher Spearman correlation with exact scores at every layer",
       "Figure layer-wise correlation", "layer_correlation", kEveryLayer, token_ranks},
      {"The same for the maxima of blocks of 128 tokens, which is what selection sees", "Figure layer-wise correlation",
       "layer_correlation", kEveryLayer, block_ranks},
      {"Delta = 5 gives near-perfect recall (at least 0.99)", "App. false-negative bound; Setup", "delta_validation",
       kMean, near_perfect_at_5},
      {"Delta = 7 gives near-perfect recall (at least 0.99)", "App. false-negative bound; Setup", "delta_validation",
       kMean, near_perfect_at_7},
      {"FFD needs no exception for the first two layers", "App. headwise", "early_layers",
       "layers 0 and 1 each at least 0.99, or not below the worst other layer", no_early_exception},
      {"Top-delta adapts to the sharpness of the distribution: at equal mean keep it loses less than top-k",
       "Figure comparison (top-k, top-p, top-delta)", "rule_comparison", kEveryPoint, top_delta_beats_top_k},
  };
}

}  // namespace attest
