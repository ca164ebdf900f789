// The page of claims: the paper's statements beside what results show.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/claim.h"
#include "plots/table.h"

namespace attest {

/// What one study says about every claim, and about the paper's contradictions.
struct ClaimsOfStudy {
  std::string title, source;  ///< ModelStudy::title(), source()
  std::vector<CheckedClaim> claims, contradictions;
};

ClaimsOfStudy check_claims(const ModelStudy& study, ScanBounds& scan_bounds);

/// One row per claim: what the paper says and where, the verdict, the measurement, the figure. `heading` names the
/// first column.
Table claims_table(const std::vector<CheckedClaim>& claims, const std::string& heading);

/// Markdown: for each study a table of claims and one of contradictions.
std::string claims_page(const std::vector<ClaimsOfStudy>& studies);

}  // namespace attest
