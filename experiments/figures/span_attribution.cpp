// Which heads lose the answer at which setting.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/figures/span_attribution_parts.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace span_attribution_figure {

std::vector<LossCurve> curves_of(const ModelStudy& study, const std::set<int>& except, bool whole_model) {
  std::vector<LossCurve> curves;
  for (const PooledSelector& selector : study.selectors()) {
    if (selector.group.name == "exact") continue;
    const std::vector<SpanLoss> losses = span_losses(study, selector, except);
    if (losses.empty()) continue;
    LossCurve curve{.curve = quality_curve(study, selector, except, {}, kNoIntervals), .losses = {}};
    if (whole_model) curve.curve.name_whole_model();
    for (const QualityPoint& point : curve.curve.points) curve.losses.push_back(losses[point.setting]);
    if (std::ranges::any_of(curve.losses, [](const SpanLoss& loss) { return loss.best_layer.prompts > 0; }))
      curves.push_back(std::move(curve));
  }
  return curves;
}

/// The top heads of each selector, and all others that are retrieval heads.
std::vector<HeadCurve> heads_of(const ModelStudy& study, const std::vector<LossCurve>& curves,
                                const RetrievalRanking& ranking) {
  std::vector<HeadCurve> heads;
  for (const LossCurve& curve : curves) {
    if (curve.curve.whole_model) continue;
    const HeadKeeping keeping(study, *curve.curve.selector);
    if (keeping.empty()) continue;
    const std::set<int> dense = study.dense_layers({curve.group().label});
    for (std::size_t i = 0; i < ranking.heads.size(); ++i) {
      if (i >= kTopHeads && ranking.heads[i].retrieval_prompts == 0) continue;
      HeadCurve& head = heads.emplace_back();
      head = {.of = &curve,
              .rank = i + 1,
              .head = ranking.heads[i],
              .dense = dense.contains(ranking.heads[i].layer),
              .points = {}};
      for (const QualityPoint& point : curve.curve.points) head.points.push_back(keeping.at(point.setting, head.head));
    }
  }
  return heads;
}

/// The first ffd under its top-delta rule, else the first selector that is no oracle, else the first.
std::string shown_label(const ModelStudy& study, const std::vector<HeadCurve>& heads) {
  const auto has = [&](const std::string& label) {
    return std::ranges::any_of(heads, [&](const HeadCurve& h) { return h.of->group().label == label; });
  };
  for (const PooledSelector* ffd : top_delta_ffds(study))
    if (has(ffd->group.label)) return ffd->group.label;
  for (const HeadCurve& head : heads)
    if (!head.of->curve.selector->is_oracle()) return head.of->group().label;
  return heads.front().of->group().label;
}

Finding ranking_finding(const RetrievalRanking& ranking, const std::string& label) {
  const RetrievalHead& first = ranking.heads.front();
  const int without = ranking.prompts - ranking.heads.back().covered_prompts;
  const std::string coverage =
      ranking.needed() == 1 ? std::string("it is one in every prompt")
      : ranking.needed() > 0
          ? fmt::format("the first {} together have one in every prompt", ranking.needed())
          : fmt::format("{} of {} prompts {} none", without, ranking.prompts, without == 1 ? "has" : "have");
  return {.text = fmt::format(
              "The head with most attention on the evidence is {}: {:.1f} % on average over {}. {} of {} heads "
              "{} 30 % or more on it at some query of a prompt (retrieval heads); {}.",
              head_in_words(first), 100 * first.mass, counted(ranking.prompts, "prompt"), ranking.num_retrieval(),
              ranking.heads.size(), ranking.num_retrieval() == 1 ? "puts" : "put", coverage),
          .number = fmt::format("{:.1f} % of mass", 100 * first.mass),
          .place = MapPlace{
              .metric = "span_mass", .selector = label, .setting = {}, .layer = first.layer, .head = first.head}};
}

/// The curves of the selector's retrieval heads.
std::vector<const HeadCurve*> retrieval_heads_of(const std::vector<HeadCurve>& heads, const LossCurve& curve) {
  std::vector<const HeadCurve*> found;
  for (const HeadCurve& head : heads)
    if (head.of == &curve && head.head.retrieval_prompts > 0) found.push_back(&head);
  return found;
}

/// Ends a sentence on measured heads: how many others the selector's results lack. Empty for none.
std::string not_measured(std::size_t heads) {
  return heads == 0
             ? ""
             : fmt::format("; {} {} not measured", counted(static_cast<std::int64_t>(heads), "more retrieval head"),
                           heads == 1 ? "was" : "were");
}

/// Says what the retrieval heads lose at a point. Fills `losing` with the heads that lose most, the worst first.
std::string heads_in_words(std::vector<const HeadCurve*> heads, std::size_t point,
                           std::vector<const HeadCurve*>& losing) {
  constexpr std::size_t kNamed = 3;
  if (heads.empty()) return "no head is a retrieval head";
  const std::string others = not_measured(
      std::erase_if(heads, [&](const HeadCurve* head) { return std::isnan(head->points[point].mass_kept); }));
  if (heads.empty()) return "no retrieval head was measured";
  std::ranges::copy_if(heads, std::back_inserter(losing),
                       [&](const HeadCurve* head) { return head->points[point].mass_kept < kKeptMass; });
  std::ranges::stable_sort(losing, {}, [&](const HeadCurve* head) { return head->points[point].mass_kept; });
  if (losing.empty())
    return fmt::format("{} keep{} 99 % or more of {} attention on them{}",
                       heads.size() == 1 ? "the retrieval head" : fmt::format("all {} retrieval heads", heads.size()),
                       heads.size() == 1 ? "s" : "", heads.size() == 1 ? "its" : "their", others);
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(kNamed, losing.size()); ++i)
    named.push_back(
        fmt::format("{} keeps {:.1f} %", head_in_words(losing[i]->head), 100 * losing[i]->points[point].mass_kept));
  return fmt::format("of {}, {} lose{} more than 1 % of the attention on them: {}{}{}",
                     counted(std::ssize(heads), "retrieval head"), losing.size(), losing.size() == 1 ? "s" : "",
                     join(named, ", "), losing.size() > kNamed ? ", ..." : "", others);
}

/// `dense`: the layers that are left out, because some selector leaves them dense.
Finding loss_finding(const LossCurve& curve, std::size_t point, const std::vector<HeadCurve>& heads,
                     const std::set<int>& dense) {
  constexpr double kWarningKept = 0.9, kSeriousKept = 0.5;
  const SpanLoss& loss = curve.losses[point];
  const bool of_model = loss.model.prompts > 0;
  const PromptLoss& lost = of_model ? loss.model : loss.best_layer;
  std::vector<const HeadCurve*> losing;
  const std::string of_heads = heads_in_words(retrieval_heads_of(heads, curve), point, losing);
  const std::string others =
      dense.empty() ? "" : fmt::format(" but {}, dense in one of the selectors", layers_in_words(dense));
  const std::string layer = (of_model ? "any layer" : "the best layer") + others;
  const std::string tokens =
      lost.worst > 0
          ? fmt::format("{:.1f} % of the evidence tokens are kept by no head of {} (worst prompt, {}: {:.1f} %)",
                        100 * lost.mean, layer, display_name(lost.worst_prompt), 100 * lost.worst)
          : fmt::format("every evidence token is kept by some head{}", !of_model       ? " of " + layer
                                                                       : dense.empty() ? ""
                                                                                       : " of a layer" + others);
  const double worst_kept = std::min(1 - lost.worst, losing.empty() ? 1 : losing.front()->points[point].mass_kept);
  Finding finding{.text = fmt::format("{}: {}; {}.", named_setting(curve.group(), curve.curve.points[point].setting),
                                      tokens, of_heads),
                  .severity = worst_kept < kSeriousKept   ? Severity::serious
                              : worst_kept < kWarningKept ? Severity::warning
                              : worst_kept >= kKeptMass   ? Severity::good
                                                          : Severity::note,
                  .number = fmt::format("{:.1f} % lost", 100 * lost.worst),
                  .place = MapPlace{.metric = "span_mass_kept",
                                    .selector = curve.group().label,
                                    .setting = curve.curve.points[point].setting_label}};
  if (!losing.empty()) {
    finding.place->layer = losing.front()->head.layer;
    finding.place->head = losing.front()->head.head;
  }
  return finding;
}

/// Says which of a selector's retrieval heads need a larger setting than the others. Nothing without retrieval heads
/// of which that is known.
std::optional<Finding> need_finding(std::vector<const HeadCurve*> heads) {
  const std::string others = not_measured(std::erase_if(heads, [](const HeadCurve* head) {
    return !head->min_point(true) && std::ranges::any_of(head->points, [](const HeadKeep& keep) {
      return std::isnan(keep.worst_retrieval_prompt);
    });
  }));
  if (heads.empty()) return std::nullopt;
  const LossCurve& curve = *heads.front()->of;
  const auto names = [](const std::vector<std::string>& list) { return first_few(list, kTopHeads); };
  std::vector<std::string> never;
  std::vector<std::pair<std::size_t, const HeadCurve*>> needs;
  for (const HeadCurve* head : heads)
    if (const auto point = head->min_point(true))
      needs.emplace_back(*point, head);
    else
      never.push_back(head_in_words(head->head));
  std::ranges::stable_sort(needs, {}, [](const auto& need) { return need.first; });
  const auto words = [&](std::size_t point) {
    const std::string at = setting_in_words(curve.group(), curve.curve.points[point].setting);
    return at.empty() ? std::string("its only setting") : at;
  };
  std::string text =
      fmt::format("{}: to keep 99 % of their attention on the evidence in every prompt in which they retrieve it, ",
                  display_name(curve.group().label));
  if (needs.empty())
    text += fmt::format("no setting of the grid suffices for {}", names(never));
  else {
    const std::size_t median = needs[(needs.size() - 1) / 2].first, maximum = needs.back().first;
    text += fmt::format("{} of {} need {} or less",
                        std::ranges::count_if(needs, [&](const auto& need) { return need.first <= median; }),
                        counted(std::ssize(heads), "retrieval head"), words(median));
    if (maximum > median)
      text += fmt::format(", and {} needs {}", head_in_words(needs.back().second->head), words(maximum));
    if (!never.empty()) text += fmt::format("; no setting of the grid suffices for {}", names(never));
  }
  return Finding{.text = text + others + ".", .severity = never.empty() ? Severity::note : Severity::warning};
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const RetrievalRanking ranking = rank_retrieval_heads(study);
  if (ranking.prompts == 0)
    return Unsupported{"needs samples with evidence spans (attest capture --spans takes them from the prompts)"};
  const std::set<int> dense = study.dense_layers(labels_of(study));
  std::vector<LossCurve> curves = curves_of(study, dense, false);
  if (curves.empty() && curves_of(study, {}, true).empty())
    return Unsupported{"needs the metric span_lost of a selector other than exact; results of older versions lack it",
                       "--force --selector ffd"};
  if (curves.empty())
    return Unsupported{"needs a layer that is dense in no selector", "--selector ffd --selector quest:dense_layers=0"};
  const std::vector<HeadCurve> heads = heads_of(study, curves, ranking);
  ExperimentResult result;
  result.findings.push_back(ranking_finding(ranking, curves.front().group().label));
  for (const LossCurve& curve : curves) {
    if (curve.curve.selector->is_oracle()) continue;
    std::vector<std::size_t> settings = shown_settings(curve.group());
    if (curve.group().name != "ffd") settings.resize(1);
    for (std::size_t i = 0; i < curve.losses.size(); ++i)
      if (std::ranges::count(settings, curve.curve.points[i].setting) > 0 && curve.losses[i].best_layer.prompts > 0)
        result.findings.push_back(loss_finding(curve, i, heads, dense));
  }
  std::vector<LossCurve> all = curves;
  if (!dense.empty()) std::ranges::move(curves_of(study, {}, true), std::back_inserter(all));
  result.figures = {losses_figure(study, all, dense), map_figure(study, ranking)};
  result.tables = {losses_table(study, all)};
  std::vector<HeadCurve> top;
  std::ranges::copy_if(heads, std::back_inserter(top), [](const HeadCurve& head) { return head.rank <= kTopHeads; });
  if (!top.empty()) {
    const std::string shown = shown_label(study, top);
    const auto curve = std::ranges::find(curves, shown, [](const LossCurve& c) { return c.group().label; });
    if (auto finding = need_finding(retrieval_heads_of(heads, *curve))) result.findings.push_back(std::move(*finding));
    result.figures.push_back(heads_figure(study, top, shown, options));
    result.tables.push_back(heads_table(study, ranking, top));
  }
  return result;
}

}  // namespace span_attribution_figure

Experiment span_attribution_experiment() {
  return {.name = "span_attribution",
          .paper = "Open question: which heads need a larger delta",
          .needs = "samples with evidence spans, and a selector other than exact",
          .make = span_attribution_figure::make};
}

}  // namespace attest
