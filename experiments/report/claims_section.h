// The paper's claims as a section of a report.
#pragma once

#include "experiments/claims/claims_page.h"
#include "plots/report/report_data.h"

namespace attest {

/// Adds a section with the claims and contradictions of one study.
void add_claims_section(const ClaimsOfStudy& study, ReportData& data);

}  // namespace attest
