// Share of the span tokens that no head keeps, in the best layer and in all layers together, at each setting.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "experiments/study_view/model_study.h"

namespace attest {

/// Statistics over prompts. A prompt's value is the mean over its queries that see any token of its spans.
struct PromptLoss {
  int prompts = 0;
  double mean = 0, worst = 0;  ///< NaN without prompts
  std::string worst_prompt;    ///< the name of the sample; empty if none loses anything
};

struct SpanLoss {
  /// The loss in the layer that loses least, which may be another one for each query.
  PromptLoss best_layer;
  /// Tokens that no head of any layer keeps. Of the prompts whose results tell (kMaxSpanTokens).
  PromptLoss model;
};

/// [S] The losses at each setting of the selector's group, without the layers `except`. Empty if the results lack
/// span_lost.
std::vector<SpanLoss> span_losses(const ModelStudy& study, const PooledSelector& selector, const std::set<int>& except);

}  // namespace attest
