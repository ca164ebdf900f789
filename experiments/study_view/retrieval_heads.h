// The heads of a model that read the evidence, ranked by exact attention mass on its spans, and what a selector keeps
// of that mass in each of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "experiments/study_view/model_study.h"

namespace attest {

struct RetrievalHead {
  int layer = 0, head = 0, kv_head = 0;
  double mass = 0;            ///< exact mass on the spans, mean over samples and queries
  int prompts = 0;            ///< samples that have the head and whose spans it sees
  int retrieval_prompts = 0;  ///< those in which a query puts kRetrievalMass or more on the span
  // These numbers are of this head and all that are ranked before it:
  int covered_prompts = 0;     ///< samples in which at least one of them is a retrieval head
  double cumulative_mass = 0;  ///< their share of the sum of all heads' masses
};

struct RetrievalRanking {
  std::vector<RetrievalHead> heads;  ///< descending by mass
  int prompts = 0;                   ///< samples with spans that a query sees

  /// Heads that are retrieval heads in some prompt.
  std::int64_t num_retrieval() const;
  /// Number of first heads of which every prompt has a retrieval head; 0 if some prompt has none at all.
  std::size_t needed() const;
};

/// Ranks heads over all computed layers of the study's samples that have spans.
RetrievalRanking rank_retrieval_heads(const ModelStudy& study);

/// What a selector keeps at one setting in one head.
struct HeadKeep {
  double mass_kept = 0;     ///< sum of the span mass that is kept / sum of the span mass, over samples and queries
  double worst_prompt = 0;  ///< the least of that of each sample
  double worst_retrieval_prompt = 0;  ///< of the samples in which it is a retrieval head; NaN if there is none
  double span_keep = 0;               ///< part of the span's tokens that is kept, mean over samples and queries
};

/// The cells of one selector in all layers; reads each metric once.
class HeadKeeping {
 public:
  HeadKeeping(const ModelStudy& study, const PooledSelector& selector);

  bool empty() const { return mass_kept_.empty(); }
  HeadKeep at(std::size_t setting, const RetrievalHead& head) const;

 private:
  std::vector<std::vector<SampleCells>> keep_, mass_kept_;  ///< [setting]
  std::vector<SampleCells> mass_;
};

}  // namespace attest
