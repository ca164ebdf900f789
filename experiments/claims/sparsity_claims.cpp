// Claims about how much FFD keeps, and about what it drops.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/statistics/aggregate.h"
#include "experiments/claims/claim.h"
#include "experiments/claims/measured.h"
#include "experiments/paper/selector_choice.h"
#include "experiments/paper/words.h"

namespace attest {
namespace {

std::string options_at(double delta) { return fmt::format("--selector ffd --delta {:g}", delta); }

ClaimResult needs_ffd_at(double delta) {
  return {.evidence = fmt::format("needs ffd at delta {:g}", delta), .run_options = options_at(delta)};
}

/// 1 - x of every cell.
std::vector<SampleCells> complement(std::vector<SampleCells> cells) {
  for (SampleCells& sample : cells)
    for (float& value : sample.values) value = 1 - value;
  return cells;
}

/// The share of blocks that are skipped, for both GQA policies if the results have them.
ClaimResult skips(const ModelStudy& study, double delta, double papers) {
  std::string evidence;
  bool reached = false;
  for (const char* gqa : {"union", "per_head"}) {
    const PooledSelector* ffd = ffd_at(study, delta, gqa);
    if (!ffd) continue;
    const Measured skipped = measure(complement(cells_at(study, *ffd, "block_keep_ratio", *index_of(ffd->group, delta),
                                                         study.dense_layers({ffd->group.label}))));
    if (!skipped.exists()) continue;
    reached |= skipped.interval.mean >= papers;
    evidence += fmt::format("{}gqa={}: {}", evidence.empty() ? "" : "; ", gqa, skipped.text(percent));
  }
  if (evidence.empty()) return needs_ffd_at(delta);
  return {.verdict = reached ? Verdict::holds : Verdict::does_not_hold,
          .evidence = evidence + " of the blocks are skipped"};
}

ClaimResult skips_at_5(const ModelStudy& study) { return skips(study, 5, 0.82); }
ClaimResult skips_at_7(const ModelStudy& study) { return skips(study, 7, 0.73); }

ClaimResult gap_is_zero(const ModelStudy& study) {
  const PooledSelector* ffd = first_selector(study, "ffd");
  if (!ffd) return needs_ffd_at(5);
  const Measured zero =
      share_where(cells_at(study, *ffd, "pseudo_max_gap_exact", 0), [](float gap) { return gap == 0; });
  if (!zero.exists()) return {.evidence = "no context has a full block"};
  return {.verdict = zero.interval.mean > 0.5 ? Verdict::holds : Verdict::does_not_hold,
          .evidence = fmt::format("exactly zero in {} of the cells", zero.text(percent))};
}

ClaimResult only_keeps_more(const ModelStudy& study) {
  const PooledSelector* ffd =
      first_selector(study, "ffd", [](const PooledSelector& selector) { return selector.option("scan") != "exact"; });
  if (!ffd) return {.evidence = "needs ffd with scan=thumbnail", .run_options = options_at(5)};
  const std::vector<SampleCells> gaps = cells_at(study, *ffd, "pseudo_max_gap_thumbnail", 0);
  const Measured above = share_where(gaps, [](float gap) { return gap < 0; });
  if (!above.exists()) return {.evidence = "no context has a full block"};
  return {
      .verdict = above.interval.mean == 0 ? Verdict::holds : Verdict::does_not_hold,
      .evidence = fmt::format("from thumbnails the pseudo-max lies above the true maximum in {} of the cells, by up to "
                              "{:.2g} nats",
                              above.text(percent), std::max(0.0, -describe(gaps).min))};
}

/// The union policy keeps for each head what any head of its group wants; the paper measures single heads.
const PooledSelector* headwise_ffd(const ModelStudy& study) {
  const PooledSelector* per_head = ffd_at(study, 5, "per_head");
  return per_head ? per_head : ffd_at(study, 5);
}

ClaimResult heads_differ(const ModelStudy& study) {
  const PooledSelector* ffd = headwise_ffd(study);
  if (!ffd) return needs_ffd_at(5);
  const std::size_t setting = *index_of(ffd->group, 5);
  const std::set<int> dense = study.dense_layers({ffd->group.label});
  const HeadwiseVariation heads = headwise_variation(cells_at(study, *ffd, "keep_ratio", setting, dense),
                                                     cells_at(study, *ffd, "salient_hit_rate", setting, dense));
  if (heads.keep_ratio.count == 0) return {.evidence = "no cell has a keep ratio"};
  return {.verdict = heads.keep_ratio.std >= heads.keep_ratio.mean ? Verdict::holds : Verdict::does_not_hold,
          .evidence =
              fmt::format("keep ratio over {} (gqa={}): mean {}, standard deviation {}, from {} to {}; mean salient "
                          "hit rate {}",
                          counted(heads.keep_ratio.count, "layer-head pair"), ffd->option("gqa"),
                          percent(heads.keep_ratio.mean), percent(heads.keep_ratio.std), percent(heads.keep_ratio.min),
                          percent(heads.keep_ratio.max), percent(heads.mean_hit_rate))};
}

ClaimResult flat_heads_keep_more(const ModelStudy& study) {
  const PooledSelector* ffd = headwise_ffd(study);
  if (!ffd) return needs_ffd_at(5);
  const std::size_t setting = *index_of(ffd->group, 5);
  const FailureCases cases =
      failure_cases(study.score_cells(*ffd, "top1_top2_gap"), study.score_cells(*ffd, "score_std"));
  const auto keep = pair_values(cells_at(study, *ffd, "keep_ratio", setting));
  const auto hit = pair_values(cells_at(study, *ffd, "salient_hit_rate", setting));
  if (cases.proxy_error.empty() || cases.regular.empty())
    return {.evidence = "too few layer-head pairs to tell classes"};
  const double keep_proxy = mean_over(cases.proxy_error, keep), keep_regular = mean_over(cases.regular, keep);
  const double hit_proxy = mean_over(cases.proxy_error, hit), hit_regular = mean_over(cases.regular, hit);
  return {.verdict = keep_proxy > keep_regular && hit_proxy >= hit_regular ? Verdict::holds : Verdict::does_not_hold,
          .evidence = fmt::format("proxy-error pairs ({} of {}) keep {}, regular ones {}; salient hit rate {} and {}",
                                  cases.proxy_error.size(), cases.total(), percent(keep_proxy), percent(keep_regular),
                                  percent(hit_proxy), percent(hit_regular))};
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
      .verdict = moments.min >= 5 ? Verdict::holds : Verdict::does_not_hold,
      .evidence = fmt::format("of the cells that drop a token, {} drop one within 5 nats of the peak; the nearest lies "
                              "{:.2g} nats below it",
                              near.text(percent), moments.min)};
}

ClaimResult one_per_cent(const ModelStudy& study) {
  const PooledSelector* ffd = ffd_at(study, 5);
  if (!ffd) return needs_ffd_at(5);
  const Measured salient = measure(cells_at(study, *ffd, "salient_ratio", *index_of(ffd->group, 5)));
  if (!salient.exists()) return {.evidence = "no cell has a salient ratio"};
  return {.verdict = salient.interval.mean <= 0.02 ? Verdict::holds : Verdict::does_not_hold,
          .evidence = fmt::format("{} of the tokens lie within 5 nats of the peak", salient.text(percent))};
}

}  // namespace

std::vector<PaperClaim> sparsity_claims() {
  return {
      {"FFD skips 82 % of the blocks at delta = 5", "Figure Layer-wise sparsity distribution", "layer_sparsity",
       skips_at_5},
      {"FFD skips 73 % of the blocks at delta = 7", "Figure Layer-wise sparsity distribution", "layer_sparsity",
       skips_at_7},
      {"The pseudo-max is the true maximum in most cases", "Figure distribution of m - m~", "pseudo_max_gap",
       gap_is_zero},
      {"The pseudo-max errs only towards keeping more tokens", "Sec. pseudo-max", "pseudo_max_gap", only_keeps_more},
      {"Heads keep very different shares: 6.42 % on average with a standard deviation of 14.14 % (0.62 to 100 %), at a "
       "hit rate of 87.45 %",
       "Table headwise", "headwise", heads_differ},
      {"Heads with flat scores keep more tokens and hit more of the salient ones (13.15 against 2.43 %; 74.67 against "
       "63.74 %)",
       "Table failure", "failure_cases", flat_heads_keep_more},
      {"Only tokens below e^-5 of the peak are dropped at delta = 5", "Sec. FFD selection", "guarantee",
       drops_only_below_delta},
      {"Delta = 5 marks about the top 1 % of the tokens as salient", "Setup", "delta_validation", one_per_cent},
  };
}

}  // namespace attest
