// Claims about how much FFD keeps, and about what it drops.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "analysis/statistics/aggregate.h"
#include "dumps/base/join.h"
#include "experiments/claims/claim.h"
#include "experiments/claims/measured.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

std::string options_at(double delta) { return fmt::format("--selector ffd --delta {:g}", delta); }

ClaimResult needs_ffd_at(double delta) {
  return {.evidence = fmt::format("needs ffd at delta {:g}", delta), .run_options = options_at(delta)};
}

/// The share of blocks that are skipped, for both GQA policies if the results have them.
ClaimResult skips(const ModelStudy& study, double delta, double papers) {
  ClaimResult result;
  bool holds = false, refuted = true;
  for (const char* gqa : {"union", "per_head"}) {
    const PooledSelector* ffd = ffd_at(study, delta, gqa);
    if (!ffd) continue;
    const std::size_t setting = *index_of(ffd->group, delta);
    const auto cells = cells_at(study, *ffd, "block_keep_ratio", setting, study.dense_layers({ffd->group.label}));
    const Measured skipped = measure(complement(cells));
    if (!skipped.exists()) continue;
    const Verdict verdict = judged(skipped.interval, papers);
    holds |= verdict == Verdict::holds;
    refuted &= verdict == Verdict::does_not_hold;
    result.evidence += fmt::format("{}gqa={}: {}", result.evidence.empty() ? "" : "; ", gqa, skipped.text(percent));
    result.subject += fmt::format("{}{}", result.subject.empty() ? "" : "; ", subject_of(*ffd, setting, cells));
  }
  if (result.evidence.empty()) return needs_ffd_at(delta);
  result.evidence += " of the blocks are skipped";
  result.verdict = holds ? Verdict::holds : refuted ? Verdict::does_not_hold : Verdict::cannot_tell;
  return result;
}

ClaimResult skips_at_5(const ModelStudy& study) { return skips(study, 5, 0.82); }
ClaimResult skips_at_7(const ModelStudy& study) { return skips(study, 7, 0.73); }

ClaimResult gap_is_zero(const ModelStudy& study) {
  const PooledSelector* ffd =
      first_selector(study, "ffd", [](const PooledSelector& selector) { return !has_global_pseudo_max(selector); });
  if (!ffd) return needs_ffd_at(5);
  const auto cells = cells_at(study, *ffd, "pseudo_max_gap_exact", 0, study.dense_layers({ffd->group.label}));
  const Measured zero = share_where(cells, [](float gap) { return gap == 0; });
  if (!zero.exists()) return {.evidence = "no context has a full block"};
  return {.verdict = judged(zero.interval, 0.5),
          .evidence = fmt::format("exactly zero in {} of the cells", zero.text(percent)),
          .subject = subject_of(*ffd, 0, cells)};
}

ClaimResult only_keeps_more(const ModelStudy& study) {
  const PooledSelector* ffd = first_selector(study, "ffd", [](const PooledSelector& selector) {
    return selector.option("scan") != "exact" && !has_global_pseudo_max(selector);
  });
  if (!ffd) return {.evidence = "needs ffd with scan=thumbnail", .run_options = options_at(5)};
  const std::vector<SampleCells> gaps =
      cells_at(study, *ffd, "pseudo_max_gap_thumbnail", 0, study.dense_layers({ffd->group.label}));
  const Measured above = share_where(gaps, [](float gap) { return gap < 0; });
  if (!above.exists()) return {.evidence = "no context has a full block"};
  return {
      .verdict = judged_universal(above.interval.mean > 0, above.interval.clusters),
      .evidence = fmt::format("from thumbnails the pseudo-max lies above the true maximum in {} of the cells, by up to "
                              "{:.2g} nats",
                              above.text(percent), std::max(0.0, -describe(gaps).min)),
      .subject = subject_of(*ffd, 0, gaps)};
}

/// The union policy keeps for each head what any head of its group wants; the paper measures single heads.
const PooledSelector* headwise_ffd(const ModelStudy& study) {
  const PooledSelector* per_head = ffd_at(study, 5, "per_head");
  return per_head ? per_head : ffd_at(study, 5);
}

/// Each sample is measured on its own, as the paper measures one: a mean over samples would hide how heads vary.
ClaimResult heads_differ(const ModelStudy& study) {
  const PooledSelector* ffd = headwise_ffd(study);
  if (!ffd) return needs_ffd_at(5);
  const std::size_t setting = *index_of(ffd->group, 5);
  const std::set<int> dense = study.dense_layers({ffd->group.label});
  const auto keep = cells_at(study, *ffd, "keep_ratio", setting, dense),
             hit = cells_at(study, *ffd, "salient_hit_rate", setting, dense);
  SampleNumbers ratios, means, stds, hits = sample_means(hit);
  double minimum = 1, maximum = 0;
  std::int64_t pairs = 0;
  for (const SampleCells& sample : keep) {
    const Moments heads = headwise_variation(std::span(&sample, 1), {}).keep_ratio;
    if (heads.count == 0) continue;
    const SampleKey key = key_of(sample);
    means[key] = heads.mean;
    stds[key] = heads.std;
    ratios[key] = heads.std / heads.mean;
    minimum = std::min(minimum, heads.min);
    maximum = std::max(maximum, heads.max);
    pairs = std::max(pairs, heads.count);
  }
  if (ratios.empty()) return {.evidence = "no cell has a keep ratio"};
  return {
      .verdict = judged(measure(ratios).interval, 1),
      .evidence = fmt::format("keep ratio over the {} of a sample: mean {} ({} over all cells), standard deviation {}, "
                              "from {} to {}; their quotient {}; mean salient hit rate {}",
                              counted(pairs, "layer-head pair"), percent(measure(means).interval.mean),
                              percent(describe(keep).mean), percent(measure(stds).interval.mean), percent(minimum),
                              percent(maximum), measure(ratios).text(quality), percent(measure(hits).interval.mean)),
      .subject = subject_of(*ffd, setting, keep)};
}

ClaimResult flat_heads_keep_more(const ModelStudy& study) {
  const PooledSelector* ffd = headwise_ffd(study);
  if (!ffd) return needs_ffd_at(5);
  const std::size_t setting = *index_of(ffd->group, 5);
  const std::set<int> dense = study.dense_layers({ffd->group.label});
  const FailureCases cases =
      failure_cases(study.score_cells(*ffd, "top1_top2_gap", dense), study.score_cells(*ffd, "score_std", dense));
  if (cases.proxy_error.empty() || cases.regular.empty())
    return {.evidence = "too few layer-head pairs to tell classes"};
  const auto keep = cells_at(study, *ffd, "keep_ratio", setting, dense),
             hit = cells_at(study, *ffd, "salient_hit_rate", setting, dense);
  const std::vector parts{class_differences(keep, cases), class_differences(hit, cases)};
  const JudgedParts judged = judged_parts(parts);
  const auto kept = pair_values(keep), hits = pair_values(hit);
  return {.verdict = judged.verdict,
          .evidence = fmt::format("proxy-error pairs ({} of {}) keep {}, regular ones {}; salient hit rate {} and {}; "
                                  "more by {} and {}",
                                  cases.proxy_error.size(), cases.total(), percent(mean_over(cases.proxy_error, kept)),
                                  percent(mean_over(cases.regular, kept)), percent(mean_over(cases.proxy_error, hits)),
                                  percent(mean_over(cases.regular, hits)), measure(parts[0]).text(percent),
                                  measure(parts[1]).text(percent)),
          .subject = subject_of(*ffd, setting, keep)};
}

ClaimResult drops_only_below_delta(const ModelStudy& study) {
  const PooledSelector* ffd = ffd_at(study, 5);
  if (!ffd) return needs_ffd_at(5);
  const std::vector<SampleCells> gaps =
      cells_at(study, *ffd, "dropped_gap", *index_of(ffd->group, 5), study.dense_layers({ffd->group.label}));
  const Moments moments = describe(gaps);
  if (moments.count == 0) return {.evidence = "no cell drops a token at delta 5"};
  const Measured near = share_where(gaps, [](float gap) { return gap < 5; });
  return {
      .verdict = judged_universal(moments.min < 5, near.interval.clusters),
      .evidence = fmt::format("of the cells that drop a token, {} drop one within 5 nats of the peak; the nearest lies "
                              "{:.2g} nats below it",
                              near.text(percent), moments.min),
      .subject = subject_of(*ffd, *index_of(ffd->group, 5), gaps)};
}

ClaimResult one_per_cent(const ModelStudy& study) {
  const PooledSelector* ffd = ffd_at(study, 5);
  if (!ffd) return needs_ffd_at(5);
  const std::size_t setting = *index_of(ffd->group, 5);
  const auto cells = cells_at(study, *ffd, "salient_ratio", setting, study.dense_layers({ffd->group.label}));
  const Measured salient = measure(cells);
  if (!salient.exists()) return {.evidence = "no cell has a salient ratio"};
  return {.verdict = judged(salient.interval, 0.005, 0.015),
          .evidence = fmt::format("{} of the tokens lie within 5 nats of the peak", salient.text(percent)),
          .subject = subject_of(*ffd, setting, cells)};
}

}  // namespace

std::vector<PaperClaim> sparsity_claims() {
  return {
      {"FFD skips 82 % of the blocks at delta = 5", "Figure Layer-wise sparsity distribution", "layer_sparsity",
       "mean at least 82 % under one of the GQA policies", skips_at_5},
      {"FFD skips 73 % of the blocks at delta = 7", "Figure Layer-wise sparsity distribution", "layer_sparsity",
       "mean at least 73 % under one of the GQA policies", skips_at_7},
      {"The pseudo-max is the true maximum in most cases", "Figure distribution of m - m~", "pseudo_max_gap",
       "a gap of zero in at least half of the cells", gap_is_zero},
      {"The pseudo-max errs only towards keeping more tokens", "Sec. pseudo-max", "pseudo_max_gap",
       "in no cell above the true maximum", only_keeps_more},
      {"Heads keep very different shares: 6.42 % on average with a standard deviation of 14.14 % (0.62 to 100 %), at a "
       "hit rate of 87.45 %",
       "Table headwise", "headwise",
       "in a sample the standard deviation over heads is at least their mean (the paper's is 2.2 times)", heads_differ},
      {"Heads with flat scores keep more tokens and hit more of the salient ones (13.15 against 2.43 %; 74.67 against "
       "63.74 %)",
       "Table failure", "failure_cases", "in a sample proxy-error heads keep more than regular ones, and hit more",
       flat_heads_keep_more},
      {"Only tokens below e^-5 of the peak are dropped at delta = 5", "Sec. FFD selection", "guarantee",
       "no cell drops a token within 5 nats of the peak", drops_only_below_delta},
      {"Delta = 5 marks about the top 1 % of the tokens as salient", "Setup", "delta_validation",
       "mean from 0.5 to 1.5 %", one_per_cent},
  };
}

}  // namespace attest
