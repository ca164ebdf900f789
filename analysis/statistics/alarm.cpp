// Counts alarms at thresholds.
#include "analysis/statistics/alarm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kNaN;
}

bool on_a_line(const RocPoint& a, const RocPoint& b, const RocPoint& c) {
  return (b.false_alarms == a.false_alarms && c.false_alarms == b.false_alarms) ||
         (b.caught == a.caught && c.caught == b.caught);
}

}  // namespace

double AlarmCounts::caught_share() const { return share_of(caught, failures); }
double AlarmCounts::false_alarm_share() const { return share_of(false_alarms, successes); }

AlarmCounts& AlarmCounts::operator+=(const AlarmCounts& other) {
  failures += other.failures;
  caught += other.caught;
  successes += other.successes;
  false_alarms += other.false_alarms;
  return *this;
}

AlarmCounts alarms_at(std::span<const ScoredOutcome> outcomes, double threshold) {
  AlarmCounts counts;
  for (const ScoredOutcome& outcome : outcomes) {
    ++(outcome.failed ? counts.failures : counts.successes);
    if (outcome.score >= threshold) ++(outcome.failed ? counts.caught : counts.false_alarms);
  }
  return counts;
}

double threshold_that_catches(std::span<const ScoredOutcome> outcomes, double share) {
  std::vector<double> failed;
  for (const ScoredOutcome& outcome : outcomes)
    if (outcome.failed) failed.push_back(outcome.score);
  if (failed.empty()) return kNaN;
  std::ranges::sort(failed, std::greater{});
  constexpr double kRounding = 1e-9;  // 0.95 * 20 is 19
  const auto needed = static_cast<std::size_t>(std::ceil(share * static_cast<double>(failed.size()) - kRounding));
  return failed[std::clamp<std::size_t>(needed, 1, failed.size()) - 1];
}

std::vector<RocPoint> roc_curve(std::span<const ScoredOutcome> outcomes) {
  std::vector<ScoredOutcome> sorted(outcomes.begin(), outcomes.end());
  std::ranges::sort(sorted, std::greater{}, &ScoredOutcome::score);
  const std::int64_t failures = std::ranges::count_if(sorted, &ScoredOutcome::failed),
                     successes = static_cast<std::int64_t>(sorted.size()) - failures;
  std::vector<RocPoint> points;
  if (failures == 0 || successes == 0) return points;
  points.push_back({.threshold = std::numeric_limits<double>::infinity()});
  std::int64_t caught = 0, false_alarms = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    ++(sorted[i].failed ? caught : false_alarms);
    if (i + 1 < sorted.size() && sorted[i + 1].score == sorted[i].score) continue;
    const RocPoint point{sorted[i].score, share_of(false_alarms, successes), share_of(caught, failures)};
    if (points.size() > 1 && on_a_line(points[points.size() - 2], points.back(), point)) points.pop_back();
    points.push_back(point);
  }
  return points;
}

}  // namespace attest
