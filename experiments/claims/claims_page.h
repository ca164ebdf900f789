// The page of claims: the paper's statements beside what results show.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/claim.h"

namespace attest {

struct CheckedClaim {
  Claim claim;
  ClaimResult result;
};

/// What one study says about every claim, and about the paper's contradictions.
struct ClaimsOfStudy {
  std::string title, source;  ///< ModelStudy::title(), source()
  std::vector<CheckedClaim> claims, contradictions;
};

ClaimsOfStudy check_claims(const ModelStudy& study);

/// Markdown: for each study a table of claims and one of contradictions.
std::string claims_page(const std::vector<ClaimsOfStudy>& studies);

}  // namespace attest
