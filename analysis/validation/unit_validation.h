// Settings of their own for layers or KV heads: chosen on one part of the prompts, certified on the other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/validation/io_allocation.h"
#include "analysis/validation/unit_family.h"
#include "analysis/validation/validation.h"

namespace attest {

/// Indices of the prompts that choose and of those that certify, ascending.
struct PromptSplit {
  std::vector<std::size_t> choosing, certifying;
};

/// By task, clusters together: of each task's the share `choosing` is drawn, rounded so that the total is right. Throws
/// UsageError if a part would be empty.
PromptSplit split_prompts(const PromptSet& set, double choosing, std::uint64_t seed);

/// An assignment with what the certifying prompts say of it.
struct JudgedAssignment {
  Assignment assignment;
  double slack = 0;  ///< of a family member
  Evidence evidence;
  double keep = 0, io = 0;  ///< means over the certifying prompts that have them; NaN without any
};

struct UnitValidation {
  UnitKind kind = UnitKind::layer;
  std::vector<Unit> units;
  std::vector<std::size_t> choosing, certifying;  ///< PromptSplit
  std::vector<JudgedAssignment> members;  ///< the family, safest first, as far as it was tested; or the allocation
  Certainty certainty = Certainty::undecided;
  std::optional<std::size_t> passed = {}, stopped = {};  ///< indices into `members`, as in Validation
  std::optional<std::int64_t> prompts_to_decide = {};    ///< of both parts together, at `stopped`
  std::optional<double> smaller_choice = {};    ///< a share for choosing that leaves enough of these to certify
  Offenders offenders;                          ///< at stopped, else at passed
  PromptNumbers numbers = {};                   ///< of the certifying units of evidence, at about()
  std::optional<IoAllocation> allocation = {};  ///< with an io budget
  /// With an io budget: the single setting within it that loses least over the choosing prompts, an index into the
  /// grid. Empty if there is none.
  std::optional<std::size_t> single_in_budget = {};
  /// Of single_in_budget, over the choosing prompts: mean loss on the scale of allocation->loss, and mean io_ratio.
  double single_loss = 0, single_io = 0;

  /// The assignment that the verdict is about.
  const JudgedAssignment& about() const { return members[passed.value_or(0)]; }
  const JudgedAssignment& in_the_way() const { return members[stopped.value_or(passed.value_or(0))]; }
};

struct UnitRequest {
  UnitKind kind = UnitKind::kv_head;
  double choosing = 0.5;
  std::uint64_t seed = 0;
  std::optional<double> io_budget = {};  ///< mean io_ratio; then the assignment that loses least, else the family
};

/// How many members of a family are judged at most.
inline constexpr std::size_t kMaxMembers = 400;

/// Memory does not grow with the prompts but for their numbers. Throws UsageError if the io budget is below what every
/// unit reads at least.
UnitValidation validate_units(const PromptSet& set, const ValidationRequest& request, const UnitRequest& units);

}  // namespace attest
