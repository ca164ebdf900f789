// A nested family of assignments of settings to units, from the safest to the cheapest, with one parameter.
#pragma once

#include <span>
#include <vector>

#include "analysis/validation/units.h"

namespace attest {

/// For a slack t every unit takes the smallest setting whose worst loss is at most t, or is dense if there is none. A
/// larger t never raises a unit's setting.
struct FamilyMember {
  double slack = 0;
  Assignment assignment;
  double io = 0;  ///< mean over query heads, by the losses that the family was made from
};

/// Members from the smallest slack at which a unit is not dense. Slacks between which nothing changes are one member;
/// of very many, those at equal steps of io are taken, `maximum` at most. `safest_first`: PromptSet::settings.
std::vector<FamilyMember> make_family(const UnitLosses& losses, std::span<const Unit> units,
                                      std::span<const std::size_t> safest_first, std::size_t maximum);

}  // namespace attest
