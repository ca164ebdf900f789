// The assignment that loses least within a budget of bytes read: a multiple-choice knapsack.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analysis/validation/units.h"

namespace attest {

/// One way to serve a unit.
struct UnitChoice {
  double io = 0, loss = 0;
  std::size_t setting = kDense;
};

struct IoAllocation {
  std::vector<std::size_t> choice;  ///< [unit] index into its choices
  double io = 0, loss = 0;          ///< sums over units
  double relaxed_loss = 0;  ///< of the relaxation, in which one unit may mix two choices: no assignment is below it
};

/// `choices` [unit], each with a finite loss among them; those with an infinite loss are not taken. On the lower convex
/// hull of each unit's choices the steps that save most loss per byte are taken while they fit (Sinha and Zoltners, The
/// multiple-choice knapsack problem, Operations Research 1979); what is left is filled with the largest single
/// improvements. Empty if even the smallest choices exceed the budget.
std::optional<IoAllocation> allocate_io(std::span<const std::vector<UnitChoice>> choices, double budget);

/// The choices of every unit: each setting and dense attention, with io in shares of all query heads, so that they sum
/// to the mean io_ratio.
std::vector<std::vector<UnitChoice>> unit_choices(const UnitLosses& losses, std::span<const Unit> units);

}  // namespace attest
