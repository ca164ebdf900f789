// The cells that stand in the way of a verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/validation/units.h"

namespace attest {

/// A target that a prompt misses.
struct Miss {
  std::size_t prompt = 0;  ///< index in PromptSet::prompts
  std::size_t target = 0;
};

/// A cell that misses by itself the target that its prompt misses. Of a metric of the whole model: a head, in a row
/// that misses it.
struct Offender {
  std::size_t prompt = 0;  ///< index in PromptSet::prompts
  std::size_t target = 0;
  int layer = 0;                           ///< number
  std::int64_t query_position = 0;         ///< of the query's token
  std::optional<int> head = {};            ///< empty for a metric of the whole layer
  double value = 0;                        ///< of the metric, or of its deficit if the target is of that
  std::optional<double> of_row = {};       ///< of a metric of the whole model: the row's, of which `value` is a part
  double badness = 0;                      ///< Target::relative_deficit
  std::size_t setting = 0;                 ///< index into the grid
  std::optional<std::size_t> enough = {};  ///< the smallest setting of the grid at which the cell meets the target
};

struct Offenders {
  std::int64_t count = 0;       ///< of all such cells
  std::vector<Offender> worst;  ///< the worst first, at most `maximum` of them
};

/// Of a row that misses a target of the whole model so many heads are listed, those of the largest parts.
inline constexpr std::size_t kHeadsOfRow = 3;

/// Cells of the prompts in `misses`, which are read again. `settings` [PromptSet::layers][query head]: index into
/// the grid, or kDense. A metric of a whole layer is at the setting of its first head.
Offenders find_offenders(const PromptSet& set, std::span<const Target> targets, std::span<const Miss> misses,
                         const std::vector<std::vector<std::size_t>>& settings, std::size_t maximum);

/// The same setting for all.
std::vector<std::vector<std::size_t>> same_setting(const PromptSet& set, std::size_t setting);

}  // namespace attest
