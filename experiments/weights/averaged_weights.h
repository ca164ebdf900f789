// Head weights of a model, averaged over the prompts of dumps with head gradients: what `attest weights` writes and
// says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/study/study_plan.h"
#include "dumps/base/json.h"
#include "dumps/format/dump_reader.h"
#include "experiments/study_view/head_shares.h"

namespace attest {

/// Sums over prompts.
struct LayerSums {
  int prompts = 0;
  std::vector<double> weights = {};  ///< [Hq]

  void add(const std::vector<double>& more);
  double mean(std::size_t head) const { return weights[head] / prompts; }
};

struct AveragedWeights {
  const DumpInfo* model = nullptr;
  int prompts = 0;
  std::map<int, LayerSums> layers = {};

  std::map<HeadPlace, double> means() const;
};

/// The weights of the planned samples; the dumps must outlive them. Throws InputError if the dumps are of several
/// models, or no layer has head gradients.
AveragedWeights averaged_weights(const std::vector<DumpReader>& dumps, const StudyPlan& plan);

/// The file for `attest run --weights`. `paths`, `hashes`: of the dumps.
Json document_of(const AveragedWeights& found, const std::vector<std::string>& paths,
                 const std::vector<std::string>& hashes);

/// A table of the heads that weigh most.
std::string heaviest_text(const AveragedWeights& found);

/// The option dense_heads of the `count` KV heads that weigh most: "7:1+5:0", in their order. Throws UsageError if
/// there are fewer.
std::string dense_heads_text(const AveragedWeights& found, int count);

}  // namespace attest
