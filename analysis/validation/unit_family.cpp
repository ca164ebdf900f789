// Builds the family from the events at which a unit's setting becomes smaller.
#include "analysis/validation/unit_family.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace attest {
namespace {

/// From this slack on, the unit has this setting or a smaller one.
struct Event {
  double slack = 0;
  std::size_t unit = 0;
  std::size_t rank = 0;  ///< of the setting, safest first
};

std::vector<Event> events_of(const UnitLosses& losses, std::size_t num_units,
                             std::span<const std::size_t> safest_first) {
  std::vector<Event> events;
  for (std::size_t u = 0; u < num_units; ++u)
    for (std::size_t rank = 0; rank < safest_first.size(); ++rank)
      if (const double worst = losses.worst[u * losses.num_settings + safest_first[rank]]; std::isfinite(worst))
        events.push_back({worst, u, rank});
  std::ranges::sort(events, [](const Event& a, const Event& b) {
    return std::tie(a.slack, a.unit, a.rank) < std::tie(b.slack, b.unit, b.rank);
  });
  return events;
}

/// At most `maximum` of the indices of `io`, the first and the last among them, at about equal steps of io and of the
/// index.
std::vector<std::size_t> evenly(std::span<const double> io, std::size_t maximum) {
  std::vector<std::size_t> chosen;
  // Every change of io counts, up or down: what a selector reads beyond dense attention makes io rise, too.
  double all = 0, so_far = 0;
  for (std::size_t m = 1; m < io.size(); ++m) all += std::abs(io[m] - io[m - 1]);
  double last = -1;
  for (std::size_t m = 0; m < io.size(); ++m) {
    if (m > 0) so_far += std::abs(io[m] - io[m - 1]);
    // From 0 to below 1.
    const double by_index = static_cast<double>(m) / static_cast<double>(io.size());
    const double way = ((all > 0 ? so_far / all : by_index) + by_index) / 2;
    const double step = std::floor(way * static_cast<double>(maximum - 1));
    if (io.size() <= maximum || step > last || m + 1 == io.size()) {
      if (m + 1 == io.size() && chosen.size() == maximum) chosen.pop_back();
      chosen.push_back(m);
      last = std::max(last, step);
    }
  }
  return chosen;
}

}  // namespace

std::vector<FamilyMember> make_family(const UnitLosses& losses, std::span<const Unit> units,
                                      std::span<const std::size_t> safest_first, std::size_t maximum) {
  const std::vector<Event> events = events_of(losses, units.size(), safest_first);
  const double heads = heads_of(units);
  const auto io_of = [&](std::size_t u, std::size_t setting) {
    const double io = setting == kDense ? 1 : losses.io[u * losses.num_settings + setting];
    return io * static_cast<double>(units[u].num_heads) / heads;
  };

  // The way through all members: the io after each, to choose those at equal steps.
  std::vector<std::size_t> ranks(units.size(), safest_first.size());  // size(): dense
  std::vector<double> io_after;
  std::vector<std::size_t> ends;  // of the events of each member
  double io = 1;
  const auto apply = [&](const Event& event) {
    std::size_t& rank = ranks[event.unit];
    const bool dense = rank == safest_first.size();
    if (!dense && event.rank <= rank) return;
    io += io_of(event.unit, safest_first[event.rank]) - io_of(event.unit, dense ? kDense : safest_first[rank]);
    rank = event.rank;
  };
  for (std::size_t e = 0; e < events.size(); ++e) {
    apply(events[e]);
    if (e + 1 < events.size() && events[e + 1].slack == events[e].slack) continue;
    io_after.push_back(io);
    ends.push_back(e + 1);
  }
  const std::vector<std::size_t> chosen = evenly(io_after, maximum);

  std::ranges::fill(ranks, safest_first.size());
  std::vector<FamilyMember> members;
  std::size_t next = 0;
  for (const std::size_t m : chosen) {
    for (; next < ends[m]; ++next) apply(events[next]);
    FamilyMember& member = members.emplace_back();
    member.slack = events[ends[m] - 1].slack;
    member.io = io_after[m];
    for (const std::size_t rank : ranks)
      member.assignment.push_back(rank == safest_first.size() ? kDense : safest_first[rank]);
  }
  return members;
}

}  // namespace attest
