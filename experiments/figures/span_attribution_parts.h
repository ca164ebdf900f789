// The parts of span_attribution: its data, and the figures and tables made of it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/study_view/experiment.h"
#include "experiments/study_view/quality_curves.h"
#include "experiments/study_view/retrieval_heads.h"
#include "experiments/study_view/span_losses.h"

namespace attest {

/// A selector is said to read a head's evidence from this share of its span mass on.
inline constexpr double kKeptMass = 0.99;

/// The heads whose kept mass is shown, by rank.
inline constexpr std::size_t kTopHeads = 10;

/// One selector: what is lost at each setting, by layer and in the whole model.
struct LossCurve {
  QualityCurve curve;            ///< bytes and tokens; its points are ascending by tokens kept
  std::vector<SpanLoss> losses;  ///< of curve.points

  const StudySelector& group() const { return curve.selector->group; }
};

/// What a selector keeps in one head.
struct HeadCurve {
  const LossCurve* of = nullptr;
  std::size_t rank = 0;  ///< counted from 1
  RetrievalHead head;
  bool dense = false;            ///< dense_layers made the selector exact in the head's layer
  std::vector<HeadKeep> points;  ///< of the curve's points

  /// The first point, in the order of tokens kept, that keeps kKeptMass of the mass in every prompt, or in those in
  /// which it is a retrieval head.
  std::optional<std::size_t> min_point(bool retrieval_prompts) const;
};

Figure losses_figure(const ModelStudy& study, const std::vector<LossCurve>& curves, const std::set<int>& dense);
Figure map_figure(const ModelStudy& study, const RetrievalRanking& ranking);
/// `shown`: the label of the selector that is drawn.
Figure heads_figure(const ModelStudy& study, const std::vector<HeadCurve>& heads, const std::string& shown,
                    const ExperimentOptions& options);
NamedTable losses_table(const ModelStudy& study, const std::vector<LossCurve>& curves);
NamedTable heads_table(const ModelStudy& study, const RetrievalRanking& ranking, const std::vector<HeadCurve>& heads);

/// "layer 5 head 7"
std::string head_in_words(const RetrievalHead& head);

}  // namespace attest
