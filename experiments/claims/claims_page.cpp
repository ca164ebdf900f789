// Checks all claims and writes them as Markdown.
#include "experiments/claims/claims_page.h"

#include <fmt/core.h>

#include <sstream>

#include "dumps/base/printable.h"
#include "plots/code.h"
#include "plots/table.h"

namespace attest {
namespace {

std::string evidence_of(const CheckedClaim& checked) {
  std::string text = checked.result.evidence;
  if (!checked.result.run_options.empty()) text += fmt::format("; attest run ... {}", checked.result.run_options);
  return printable(text);
}

std::string table_text(const std::vector<CheckedClaim>& claims, const char* heading) {
  std::ostringstream out;
  write_markdown(claims_table(claims, heading), out);
  return out.str();
}

std::vector<CheckedClaim> checked(const std::vector<PaperClaim>& claims, const ModelStudy& study) {
  std::vector<CheckedClaim> results;
  for (const PaperClaim& claim : claims) results.push_back({claim, claim.check(study)});
  return results;
}

}  // namespace

Table claims_table(const std::vector<CheckedClaim>& claims, const std::string& heading) {
  return make_table<CheckedClaim>(
      claims, {{{"claim", kText, heading}, [](const CheckedClaim& c) { return c.claim.statement; }},
               {{"place", kText, "In the paper"}, [](const CheckedClaim& c) { return c.claim.place; }},
               {{"verdict", kText, "Here"}, [](const CheckedClaim& c) { return verdict_text(c.result.verdict); }},
               {{"evidence", kText, "Measured"}, evidence_of},
               {{"rule", kText, "Rule"}, [](const CheckedClaim& c) { return c.claim.rule; }},
               {{"subject", kText, "Of"}, [](const CheckedClaim& c) { return printable(c.result.subject); }},
               {{"figure", kText, "Figure"}, [](const CheckedClaim& c) { return c.claim.figure; }}});
}

std::string verdict_text(Verdict verdict) {
  if (verdict == Verdict::cannot_tell) return "cannot tell";
  return verdict == Verdict::holds ? "holds" : "does not hold";
}

ClaimsOfStudy check_claims(const ModelStudy& study, ScanBounds& scan_bounds) {
  std::vector<PaperClaim> claims = quality_claims();
  for (PaperClaim& claim : sparsity_claims()) claims.push_back(std::move(claim));
  std::vector<CheckedClaim> results = checked(claims, study);
  for (CheckedClaim& claim : checked_bound_claims(study, scan_bounds)) results.push_back(std::move(claim));
  return {study.title(), study.source(), std::move(results), checked(paper_contradictions(), study)};
}

std::string claims_page(const std::vector<ClaimsOfStudy>& studies) {
  std::string page =
      "# The paper's claims beside these results\n\n"
      "A claim *holds* or *does not hold* for the prompts of these results by the rule in its row; nothing is said of "
      "other models or prompts. Rules compare intervals with what is claimed: studentized bootstraps over samples, "
      "nominally of 95 %, which cover 84 to 92 % of skewed numbers (analysis/README.md). An interval on both sides, or "
      "fewer than five samples, *cannot tell*. What is claimed of every token or row falls by one counterexample. The "
      "last column names the experiment of `attest figures` with the numbers.\n";
  for (const ClaimsOfStudy& study : studies)
    page += fmt::format("\n## {}\n\nFrom {}.\n\n{}\n### Where the paper disagrees with itself\n\n{}",
                        markdown_text(printable(study.title)), markdown_text(printable(study.source)),
                        table_text(study.claims, "Claim"), table_text(study.contradictions, "Statement"));
  return page;
}

}  // namespace attest
