// Statements of the paper that contradict each other, and which one results support.
#include <fmt/core.h>

#include <limits>
#include <set>

#include "experiments/claims/claim.h"
#include "experiments/claims/measured.h"
#include "experiments/study_view/selector_choice.h"

namespace attest {
namespace {

/// Mean keep ratios at delta 5 of two labels of ffd that differ in an option; deltas are in nats unless their unit is
/// that option.
ClaimResult compare_option(const ModelStudy& study, const std::string& option, const std::string& a,
                           const std::string& b) {
  const auto with = [&](const std::string& value) {
    return first_top_delta_ffd(study, [&](const PooledSelector& selector) {
      return selector.option(option) == value && index_of(selector.group, 5) &&
             (option == "delta_unit" || nats_per_delta(selector) == 1.0);
    });
  };
  const PooledSelector *first = with(a), *second = with(b);
  if (!first || !second)
    return {.evidence = fmt::format("needs ffd with {0}={1} and {0}={2} at delta 5", option, a, b),
            .run_options = fmt::format("--selector a=ffd:{0}={1} --selector b=ffd:{0}={2} --delta 5", option, a, b)};
  std::string evidence;
  const std::set<int> dense = study.dense_layers({first->group.label, second->group.label});
  for (const PooledSelector* selector : {first, second}) {
    const std::size_t setting = *index_of(selector->group, 5);
    evidence +=
        fmt::format("{}{}={}: keep {}, mean recall {}", evidence.empty() ? "" : "; ", option, selector->option(option),
                    percent(describe(cells_at(study, *selector, "keep_ratio", setting, dense)).mean),
                    quality(describe(cells_at(study, *selector, "recall", setting, dense)).mean));
  }
  return {.verdict = Verdict::cannot_tell, .evidence = evidence};
}

ClaimResult delta_units(const ModelStudy& study) { return compare_option(study, "delta_unit", "natural", "unscaled"); }

ClaimResult keep_at_5(const ModelStudy& study) {
  std::string evidence;
  for (const char* gqa : {"union", "per_head"}) {
    const PooledSelector* ffd = ffd_at(study, 5, gqa);
    if (!ffd) continue;
    const std::size_t setting = *index_of(ffd->group, 5);
    const std::set<int> dense = study.dense_layers({ffd->group.label});
    evidence += fmt::format("{}gqa={}: {} of the tokens, {} of the blocks", evidence.empty() ? "" : "; ", gqa,
                            percent(describe(cells_at(study, *ffd, "keep_ratio", setting, dense)).mean),
                            percent(describe(cells_at(study, *ffd, "block_keep_ratio", setting, dense)).mean));
  }
  if (evidence.empty())
    return {.evidence = "needs ffd at delta 5",
            .run_options = "--selector ffd --selector per_head=ffd:gqa=per_head --delta 5"};
  return {.verdict = Verdict::cannot_tell, .evidence = evidence + ": policy, granularity and length decide which"};
}

ClaimResult salient_are_selected(const ModelStudy& study) {
  const PooledSelector* ffd = ffd_at(study, 5);
  if (!ffd) return {.evidence = "needs ffd at delta 5", .run_options = "--selector ffd --delta 5"};
  const auto cells =
      cells_at(study, *ffd, "salient_hit_rate", *index_of(ffd->group, 5), study.dense_layers({ffd->group.label}));
  const Measured hit = measure(cells);
  if (!hit.exists()) return {.evidence = "no cell has a hit rate"};
  return {.verdict = judged_universal(describe(cells).min < 1, hit.interval.clusters),
          .evidence = fmt::format("{} of the salient tokens are kept; {} in the worst cell", hit.text(percent),
                                  percent(describe(cells).min)),
          .subject = subject_of(*ffd, *index_of(ffd->group, 5), cells)};
}

/// The oracle that has the true maximum must drop blocks, as FFD does: a block is kept as a whole for one near token.
ClaimResult pseudo_max_is_the_cause(const ModelStudy& study) {
  const PooledSelector* oracle = first_selector(study, "topdelta", [](const PooledSelector& selector) {
    return selector.option("granularity") == "block" && index_of(selector.group, 5).has_value();
  });
  if (!oracle)
    return {.evidence = "needs the oracle topdelta by blocks, which has the true maximum, at delta 5",
            .run_options = "--selector topdelta:granularity=block --delta 5"};
  const std::size_t setting = *index_of(oracle->group, 5);
  const std::set<int> dense = study.dense_layers({oracle->group.label});
  const FailureCases cases =
      failure_cases(study.score_cells(*oracle, "top1_top2_gap", dense), study.score_cells(*oracle, "score_std", dense));
  if (cases.proxy_error.empty() || cases.regular.empty())
    return {.evidence = "too few layer-head pairs to tell classes"};
  const auto cells = cells_at(study, *oracle, "keep_ratio", setting, dense);
  const auto keep = pair_values(cells);
  const Measured more = measure(class_differences(cells, cases));
  return {.verdict = judged(more.interval, -std::numeric_limits<double>::infinity(), 0),
          .evidence = fmt::format(
              "with the true maximum, too, proxy-error pairs keep {} and regular ones {}; more by {}",
              percent(mean_over(cases.proxy_error, keep)), percent(mean_over(cases.regular, keep)), more.text(percent)),
          .subject = subject_of(*oracle, setting, cells)};
}

ClaimResult residual_width(const ModelStudy& study) { return compare_option(study, "residual", "fp8", "exact"); }

template <int Case>
ClaimResult not_measured(const ModelStudy&) {
  constexpr const char* kWhy[] = {
      "arithmetic: 2 (32 32 + 28 28) = 3616; results cannot settle which dumps were left out",
      "the bound is 2 exp(-lambda^2 / (2 sigma_eff^2)) and d enters through sigma_eff alone; the figure prints the "
      "measured alpha = norm(q) / sqrt(D) beside it",
      "needs kernel times; no kernel can gain more than 1 / io_ratio from reading less",
      "needs answers of a model; dumps hold attention only",
  };
  return {.evidence = kWhy[Case]};
}

}  // namespace

std::vector<PaperClaim> paper_contradictions() {
  return {
      {"Algorithm 1 compares unscaled q k^ with delta, the equations compare scaled scores",
       "Algorithm 1; Eq. top-delta", "delta_validation", "shown, not judged", delta_units},
      {"Kept at delta = 5: 18 % (sparsity figure), 6.42 % (headwise table), about 4.5 % (failure table)",
       "Figures and tables named", "headwise", "shown, not judged", keep_at_5},
      {"Salient tokens are \"guaranteed to be selected\", yet 36 % of them are missed on regular heads",
       "Sec. pseudo-max; Table failure", "failure_cases", "no cell misses a salient token at delta 5",
       salient_are_selected},
      {"The failure table credits the pseudo-max for what flat heads keep more", "Table failure", "failure_cases",
       "with the true maximum proxy-error heads keep no more than regular ones", pseudo_max_is_the_cause},
      {"3392 pairs, where two models of 32 x 32 and 28 x 28 heads have 3616 on two dumps each", "Table failure", "",
       "not measured", not_measured<0>},
      {"The bound is said to tighten with d, but contains no d", "Theorem (scanning error)", "error_bound",
       "not measured", not_measured<1>},
      {"At 256K the reported speed-ups exceed 1 / io at the reported keep ratios", "Figure kernel latency", "",
       "not measured", not_measured<2>},
      {"The residual is \"half-precision\" in the introduction and 8-bit in the method", "Introduction; Sec. method",
       "", "shown, not judged", residual_width},
      {"RULER for FFD is 90.40 in the ablation and 87.1 / 89.4 elsewhere", "Tables ablation and RULER", "",
       "not measured", not_measured<3>},
  };
}

}  // namespace attest
