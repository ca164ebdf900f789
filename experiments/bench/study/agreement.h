// How far the results of two implementations of a study differ.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"

namespace attest {

/// Cells of metrics that both implementations have, in the same number.
struct Agreement {
  std::int64_t cells = 0;
  std::int64_t differing = 0;  ///< differ by more than kAgreementTolerance: rounding changed the kept set
  std::string worst;           ///< metric with the most cells differing
  std::int64_t not_compared = 0;
  std::set<std::string> metrics_not_compared;
};
/// The tolerance is relative to max(1, |value|): float32 is compared with double over 32K tokens.
inline constexpr double kAgreementTolerance = 2e-3;
inline constexpr double kMaxDifferingShare = 0.01;

/// Compares the cells of `ours` with those of the LibTorch peer. Throws Error if none can be compared, or if more than
/// kMaxDifferingShare of them differ.
Agreement agreement_of(const Study& study, const LayerResults& ours, const LayerResults& peers);

/// "12 of 3456 cells compared with LibTorch's are apart by more than 0.002", and what was not compared.
std::string text_of(const Agreement& agreement);

}  // namespace attest
