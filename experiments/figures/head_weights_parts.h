// The parts of head_weights: selectors with the shares of their heads, and what keeping KV heads dense gives.
#pragma once

#include <string>
#include <vector>

#include "experiments/study_view/experiment.h"
#include "experiments/study_view/head_shares.h"
#include "experiments/study_view/quality_curves.h"

namespace attest {

/// A figure has a panel for each of so many selectors at most, oracles last.
inline constexpr std::size_t kWeighedPanels = 8;

/// A selector's settings, ascending by tokens kept, with the heads' shares at each.
struct SelectorShares {
  QualityCurve curve;
  std::vector<HeadShares> shares;  ///< of curve.points

  const StudySelector& group() const { return curve.selector->group; }
};

/// Bytes read against weighted error with some KV heads dense: a figure and a table of each selector at the setting of
/// its paper, and a sentence about the first. Nothing if no selector has an error there.
ExperimentResult kept_dense(const ModelStudy& study, const std::vector<SelectorShares>& selectors,
                            const HeadRanking& weights);

}  // namespace attest
