// Measurements that claims rest on, the rules by which they decide, and the selectors they are about.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/statistics/aggregate.h"
#include "experiments/claims/claim.h"
#include "experiments/study_view/model_study.h"

namespace attest {

/// A mean over cells, the interval of its samples, and how it is worded.
struct Measured {
  Interval interval;
  double lowest_sample = 0, highest_sample = 0;  ///< of the samples' own means

  /// "0.9994 (95 % interval 0.999 to 0.9998, 7 samples)"; below five samples their range stands there. `number` prints
  /// one value.
  std::string text(const std::function<std::string(double)>& number) const;
  bool exists() const { return interval.clusters > 0; }
};

Measured measure(std::span<const SampleCells> cells);

/// One number for each sample.
using SampleNumbers = std::map<SampleKey, double>;

/// The mean over the cells of each sample that has any.
SampleNumbers sample_means(std::span<const SampleCells> cells);

/// a - b for the samples that have both.
SampleNumbers differences(const SampleNumbers& a, const SampleNumbers& b);

/// The mean over samples, each counting once. `confidence`: of its interval.
Measured measure(const SampleNumbers& numbers, double confidence = 0.95);

/// Holds if the interval lies in [low, high], does not if it lies outside of it; else, and below five samples, nobody
/// can tell.
Verdict judged(const Interval& interval, double low, double high = std::numeric_limits<double>::infinity());

/// The verdict on several parts (layers, budgets) that must all hold. One part that does not hold refutes the claim;
/// the parts share the level of the test. `parts`: numbers of samples that are at least 0 where the claim holds.
struct JudgedParts {
  Verdict verdict = Verdict::cannot_tell;
  std::size_t hold = 0, refuted = 0, parts = 0;
  std::string text() const;  ///< "over the samples clearly so at 3 of 11, clearly not at 1"
};
JudgedParts judged_parts(std::span<const SampleNumbers> parts);

/// The verdict on a claim about every cell: one counterexample refutes it, and fewer than five samples tell nothing.
Verdict judged_universal(bool counterexample, std::size_t samples);

/// The share of the cells for which `holds`; undefined cells (NaN) are left out.
Measured share_where(std::vector<SampleCells> cells, const std::function<bool(float)>& holds);

/// 1 - x for every cell.
std::vector<SampleCells> complement(std::vector<SampleCells> cells);

/// For each sample, the mean over its proxy-error pairs minus the mean over its regular pairs.
SampleNumbers class_differences(std::span<const SampleCells> cells, const FailureCases& cases);

/// The cells of a metric at one setting; the only one of metrics without settings.
std::vector<SampleCells> cells_at(const ModelStudy& study, const PooledSelector& selector, std::string_view metric,
                                  std::size_t setting, const std::set<int>& except = {});

/// The first ffd with the rule top-delta, in nats (delta_unit=natural), that has `delta` in its grid; `gqa` empty: any
/// policy.
const PooledSelector* ffd_at(const ModelStudy& study, double delta, std::string_view gqa = {});

/// "ffd at delta 5 (gqa=union), layers 2 to 31": where the cells are.
std::string subject_of(const PooledSelector& selector, std::size_t setting, std::span<const SampleCells> cells);

std::string percent(double share);  ///< "6.42 %"
std::string quality(double value);  ///< four digits: "0.9994"

}  // namespace attest
