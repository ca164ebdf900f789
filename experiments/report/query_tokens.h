// The token ids around a query, from the dumps that a study was made of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/report/report_samples.h"

namespace attest {

/// Opens each dump once, and never fails: a dump that is gone, that was changed or that has no tokens gives none.
class QueryTokens {
 public:
  /// `threads` look whether a dump is still the one that was studied.
  explicit QueryTokens(int threads) : threads_(threads) {}

  /// Ids around the token at `position`, and how many of them stand before it.
  std::pair<std::vector<int>, int> around(const ReportSample& sample, std::int64_t position);

  /// Why some dump gave no tokens: a sentence about the first such dump; empty if all did.
  const std::string& problem() const { return problem_; }

 private:
  using SampleTokens = std::map<std::string, std::vector<std::int32_t>>;  ///< by the name of the sample

  const SampleTokens& tokens_of(const ReportSample& sample);
  SampleTokens read(const ReportSample& sample);

  const int threads_;
  std::map<std::pair<const ResultsFile*, std::size_t>, SampleTokens> dumps_;
  std::string problem_;
};

}  // namespace attest
