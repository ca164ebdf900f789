// Measurements that claims rest on: pooled means with intervals, and the selectors they are about.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/paper/model_study.h"

namespace attest {

/// A mean over cells, the interval of its samples, and how it is worded.
struct Measured {
  Interval interval;
  double lowest_sample = 0, highest_sample = 0;  ///< of the samples' own means

  /// "0.9994 (approximate 95 % interval 0.999 to 0.9998, 7 samples)"; below five samples their range stands there.
  /// `number` prints one value.
  std::string text(const std::function<std::string(double)>& number) const;
  bool exists() const { return interval.clusters > 0; }
};

Measured measure(std::span<const SampleCells> cells);

/// The share of the cells for which `holds`; undefined cells (NaN) are left out.
Measured share_where(std::vector<SampleCells> cells, const std::function<bool(float)>& holds);

/// The cells of a metric at one setting; the only one of metrics without settings.
std::vector<SampleCells> cells_at(const ModelStudy& study, const PooledSelector& selector, std::string_view metric,
                                  std::size_t setting, const std::set<int>& except = {});

/// The first ffd with the rule top-delta that has `delta` in its grid; `gqa` empty: any policy.
const PooledSelector* ffd_at(const ModelStudy& study, double delta, std::string_view gqa = {});

std::string percent(double share);  ///< "6.42 %"
std::string quality(double value);  ///< four digits: "0.9994"

}  // namespace attest
