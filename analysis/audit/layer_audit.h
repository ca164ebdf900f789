// The audit of one layer: the engine's output beside exact attention and beside what its cache or selector predicts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/audit/audit_input.h"
#include "analysis/audit/explanation.h"

namespace attest {

/// The rows of a query head beside a prediction.
struct HeadErrors {
  double error = 0;           ///< the largest relative error
  double lse_difference = 0;  ///< the largest magnitude; NaN if none was recorded
  std::int64_t beyond = 0;    ///< rows that rounding does not explain
};

struct HeadAudit {
  HeadErrors expected, exact;
};

/// The first row, by position and head, that leaves its rounding.
struct FirstDeparture {
  std::int64_t position = 0;
  int head = 0;
  RowFit fit;
};

struct LayerAudit {
  int layer = 0;
  std::string expected;           ///< in words: "exact attention", "k=fp8_e4m3,v=fp8_e4m3"
  std::string own_rounding = {};  ///< of the engine, that rows needed: "queries in q8_0"; empty: none
  std::int64_t rows = 0;
  double median_bound = 0;       ///< of the rows beside what was expected
  std::vector<HeadAudit> heads;  ///< [Hq]
  std::optional<FirstDeparture> first;
  bool prompt_alone = false;  ///< all rows that leave their rounding are of the prompt, and others do not
  std::optional<Explanation> explanation;

  HeadErrors worst_expected() const;  ///< over heads; `beyond` is their sum
  HeadErrors worst_exact() const;
};

/// Throws InputError if attention overflows, Interrupted.
LayerAudit audit_layer(const AuditInput& input, const AuditOptions& options);

}  // namespace attest
