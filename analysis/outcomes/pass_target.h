// Which target of `attest validate` follows from outcomes: of the prompts that have a run that meets it, few fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/outcomes/outcome_runs.h"
#include "analysis/validation/guarantee.h"
#include "analysis/validation/target.h"

namespace attest {

/// Runs that meet a target. The unit is the prompt, since its runs are not independent: it fails if any of the runs
/// that meet the target failed.
struct PassCounts {
  Target target;
  std::int64_t runs = 0, failed_runs = 0;
  std::int64_t prompts = 0, failed_prompts = 0;
};

/// The fixed grid of a predictor, the strictest target first; empty if it has none.
std::vector<Target> target_grid(const std::string& predictor);

/// The predictors that have a grid, the preferred one first.
const std::vector<std::string>& target_predictors();

std::vector<PassCounts> pass_counts(const OutcomeRuns& all, std::size_t predictor,
                                    std::span<const Target> strictest_first);

/// The laxest target of the sequence for which the guarantee (GuaranteeKind::prompts) holds: from the strictest on,
/// each at the full level, up to the first that is not certified. Targets that too few prompts reach for any
/// certificate are passed over, which their cells alone decide, not the outcomes.
std::optional<std::size_t> laxest_certified(std::span<const PassCounts> strictest_first, const Guarantee& guarantee);

}  // namespace attest
