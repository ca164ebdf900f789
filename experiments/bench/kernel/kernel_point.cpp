// Means over layers and samples: a decode step calls every layer, so that times and bytes add up.
#include "experiments/bench/kernel/kernel_point.h"

#include <cmath>
#include <map>
#include <tuple>

#include "analysis/statistics/mean.h"

namespace attest {

KernelPoint pooled(const std::vector<const KernelMeasurement*>& measurements) {
  const KernelMeasurement& first = *measurements.front();
  KernelPoint p{.method = first.method,
                .scan = first.scan,
                .rule = first.rule,
                .launches = first.launches,
                .setting = first.setting,
                .length = first.length,
                .batch = first.batch,
                .measurements = static_cast<int>(measurements.size())};
  Mean us, floor, bytes, keep, io, recall, lse_error;
  for (const KernelMeasurement* m : measurements) {
    us.add(m->median_microseconds);
    floor.add(m->floor_microseconds);
    bytes.add(m->bytes);
    keep.add(m->keep_ratio);
    io.add(m->io_ratio);
    p.us_low = std::fmin(p.us_low, m->median_microseconds);
    p.us_high = std::fmax(p.us_high, m->median_microseconds);
    for (double replay : m->microseconds) {
      p.replay_low = std::fmin(p.replay_low, replay);
      p.replay_high = std::fmax(p.replay_high, replay);
    }
    if (!m->fidelity) continue;
    p.attends = true;
    recall.add(m->fidelity->recall_mean);
    lse_error.add(m->fidelity->lse_error_mean);
    p.recall_min = std::fmin(p.recall_min, m->fidelity->recall_min);
    p.lse_error_max = std::fmax(p.lse_error_max, m->fidelity->lse_error_max);
  }
  p.us = us.value();
  p.floor_us = floor.value();
  p.bytes = bytes.value();
  p.keep = keep.value();
  p.io = io.value();
  p.recall_mean = recall.value();
  p.lse_error_mean = lse_error.value();
  return p;
}

std::vector<KernelPoint> pooled_points(const std::vector<KernelMeasurement>& measurements, bool by_budget,
                                       const std::function<bool(const KernelMeasurement&)>& is_wanted) {
  const auto key_of = [by_budget](const KernelMeasurement& m) {
    const bool matched = m.rule == "topk" && m.setting.kind == "keep" && m.method == "ffd" && !by_budget;
    return std::tuple(m.method, m.scan, m.rule, m.launches, m.length, m.batch, m.setting.kind,
                      matched ? 0 : m.setting.value);
  };
  std::map<decltype(key_of(KernelMeasurement{})), std::size_t> places;
  std::vector<std::vector<const KernelMeasurement*>> groups;
  for (const KernelMeasurement& m : measurements) {
    if (!(m.median_microseconds > 0) || !is_wanted(m)) continue;
    const auto [place, added] = places.emplace(key_of(m), groups.size());
    if (added) groups.emplace_back();
    groups[place->second].push_back(&m);
  }
  std::vector<KernelPoint> points;
  for (const auto& group : groups) points.push_back(pooled(group));
  return points;
}

double speed_up(const KernelPoint& point, const std::optional<KernelPoint>& baseline) {
  return baseline ? baseline->us / point.us : kNotMeasured;
}

}  // namespace attest
