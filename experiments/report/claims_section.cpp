// Turns checked claims into tables.
#include "experiments/report/claims_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "dumps/base/printable.h"

namespace attest {

void add_claims_section(const ClaimsOfStudy& study, ReportData& data) {
  const auto earlier =
      std::ranges::count_if(data.figures, [](const ReportSection& s) { return s.id.starts_with("claims"); });
  ReportSection section{.id = earlier == 0 ? "claims" : fmt::format("claims-{}", earlier + 1),
                        .title = fmt::format("The paper's claims beside {}", printable(study.title)),
                        .note = "A claim holds or does not hold for these prompts; nothing is said about others."};
  section.tables.push_back({.title = "Claims", .table = claims_table(study.claims, "Claim")});
  section.tables.push_back(
      {.title = "Where the paper disagrees with itself", .table = claims_table(study.contradictions, "Statement")});
  data.figures.push_back(std::move(section));
}

}  // namespace attest
