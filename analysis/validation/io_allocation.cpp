// Greedy walk over lower convex hulls.
#include "analysis/validation/io_allocation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace attest {
namespace {

/// Indices of the choices on the lower convex hull, io ascending and loss descending.
std::vector<std::size_t> lower_hull(std::span<const UnitChoice> choices) {
  std::vector<std::size_t> order(choices.size()), hull;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::tie(choices[a].io, choices[a].loss) < std::tie(choices[b].io, choices[b].loss);
  });
  for (const std::size_t i : order) {
    if (!std::isfinite(choices[i].loss)) continue;                                // no other choice is worse
    if (!hull.empty() && choices[i].loss >= choices[hull.back()].loss) continue;  // another is cheaper and better
    while (hull.size() >= 2) {
      const UnitChoice &a = choices[hull[hull.size() - 2]], &b = choices[hull.back()], &c = choices[i];
      if ((b.loss - a.loss) * (c.io - a.io) < (c.loss - a.loss) * (b.io - a.io)) break;  // b is below the line a-c
      hull.pop_back();
    }
    hull.push_back(i);
  }
  return hull;
}

struct Step {
  std::size_t unit = 0, place = 0;  ///< from hull[place] to hull[place + 1]
  double io = 0, gain = 0;
};

/// Takes single changes of one unit that fit into what is left of the budget, the largest gain first.
void fill_up(std::span<const std::vector<UnitChoice>> choices, double budget, IoAllocation& allocation) {
  for (;;) {
    std::size_t best_unit = choices.size(), best = 0;
    double gain = 0;
    for (std::size_t u = 0; u < choices.size(); ++u) {
      const UnitChoice& now = choices[u][allocation.choice[u]];
      for (std::size_t c = 0; c < choices[u].size(); ++c)
        if (now.loss - choices[u][c].loss > gain && allocation.io + choices[u][c].io - now.io <= budget) {
          gain = now.loss - choices[u][c].loss;
          best_unit = u;
          best = c;
        }
    }
    if (best_unit == choices.size()) return;
    allocation.io += choices[best_unit][best].io - choices[best_unit][allocation.choice[best_unit]].io;
    allocation.loss -= gain;
    allocation.choice[best_unit] = best;
  }
}

}  // namespace

std::optional<IoAllocation> allocate_io(std::span<const std::vector<UnitChoice>> choices, double budget) {
  IoAllocation allocation;
  std::vector<std::vector<std::size_t>> hulls;
  std::vector<Step> steps;
  for (std::size_t u = 0; u < choices.size(); ++u) {
    const std::vector<std::size_t>& hull = hulls.emplace_back(lower_hull(choices[u]));
    allocation.choice.push_back(hull.front());
    allocation.io += choices[u][hull.front()].io;
    allocation.loss += choices[u][hull.front()].loss;
    for (std::size_t i = 0; i + 1 < hull.size(); ++i)
      steps.push_back({u, i, choices[u][hull[i + 1]].io - choices[u][hull[i]].io,
                       choices[u][hull[i]].loss - choices[u][hull[i + 1]].loss});
  }
  budget += 1e-12 * static_cast<double>(choices.size());  // of adding up
  if (allocation.io > budget) return std::nullopt;
  // Slopes fall along a hull, so that the steps of a unit come in its order.
  std::ranges::stable_sort(steps, [](const Step& a, const Step& b) { return a.gain * b.io > b.gain * a.io; });
  allocation.relaxed_loss = allocation.loss;
  double relaxed_io = allocation.io;
  bool fits = true;  // the relaxation ends within the first step that does not
  for (const Step& step : steps) {
    if (fits) {
      const double part = step.io > 0 ? std::min(1.0, (budget - relaxed_io) / step.io) : 1;
      allocation.relaxed_loss -= part * step.gain;
      relaxed_io += part * step.io;
    }
    if (fits && allocation.io + step.io <= budget) {
      allocation.choice[step.unit] = hulls[step.unit][step.place + 1];
      allocation.io += step.io;
      allocation.loss -= step.gain;
    } else {
      fits = false;
    }
  }
  fill_up(choices, budget, allocation);
  return allocation;
}

std::vector<std::vector<UnitChoice>> unit_choices(const UnitLosses& losses, std::span<const Unit> units) {
  const double heads = heads_of(units);
  std::vector<std::vector<UnitChoice>> choices;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const double share = static_cast<double>(units[u].num_heads) / heads;
    std::vector<UnitChoice>& own = choices.emplace_back();
    for (std::size_t s = 0; s < losses.num_settings; ++s)
      own.push_back(
          {losses.io[u * losses.num_settings + s] * share, losses.mean[u * losses.num_settings + s] * share, s});
    own.push_back({share, 0, kDense});
  }
  return choices;
}

}  // namespace attest
