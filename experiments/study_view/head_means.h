// The mean of a metric in each head.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "analysis/statistics/mean.h"
#include "experiments/study_view/model_study.h"

namespace attest {

/// The number of a layer, and of a query head or KV head in it.
using HeadPlace = std::pair<int, int>;

/// What a head's mean is of.
enum class MeanOver : std::uint8_t {
  cells,         ///< all queries of all samples: one with more queries weighs more
  samples,       ///< the samples' means over their queries
  first_queries  ///< the samples' first queries: of a metric that is the same for all queries
};

/// The means of the heads that have numbers. With `group` query heads to a KV head they are of KV heads.
std::map<HeadPlace, Mean> head_means(std::span<const SampleCells> samples, MeanOver over, int group = 1);

}  // namespace attest
