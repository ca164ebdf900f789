// attest claims: the paper's claims beside what results show.
#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "experiments/claims/claims_page.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/results_arguments.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

struct ClaimsOptions {
  ResultsArguments results;
  std::string output;
  bool replace = false;
};

Json json_of(const std::vector<CheckedClaim>& claims) {
  Json list = Json::array();
  for (const CheckedClaim& c : claims)
    list.push_back({{"claim", c.claim.statement},
                    {"place", c.claim.place},
                    {"figure", c.claim.figure},
                    {"verdict", verdict_text(c.result.verdict)},
                    {"evidence", printable(c.result.evidence)},
                    {"rule", c.claim.rule},
                    {"subject", printable(c.result.subject)},
                    {"run_options", c.result.run_options}});
  return list;
}

Json json_of(const std::vector<ClaimsOfStudy>& studies) {
  Json list = Json::array();
  for (const ClaimsOfStudy& study : studies)
    list.push_back({{"study", printable(study.title)},
                    {"source", printable(study.source)},
                    {"claims", json_of(study.claims)},
                    {"contradictions", json_of(study.contradictions)}});
  return {{"studies", list}};
}

/// "of 18 claims of the paper 10 hold, 7 do not hold, 1 cannot be told (model)"
std::string counts_text(const ClaimsOfStudy& study) {
  const auto count = [&](Verdict verdict) {
    return std::ranges::count(study.claims, verdict, [](const CheckedClaim& c) { return c.result.verdict; });
  };
  return fmt::format("of {} claims of the paper {} hold, {} do not hold, {} cannot be told ({})", study.claims.size(),
                     count(Verdict::holds), count(Verdict::does_not_hold), count(Verdict::cannot_tell),
                     printable(study.title));
}

void run_claims(ClaimsOptions& options, const GlobalOptions& global) {
  check_output_file(options.output, options.results.paths(), {.replace = options.replace});
  const ResultsFiles files = options.results.open();
  warn_of_mixed_models(files, global);

  const int threads = global.thread_count();
  ScanBounds scan_bounds(threads);
  std::vector<ClaimsOfStudy> studies;
  for (const ModelStudy& study : split_studies(files, threads)) studies.push_back(check_claims(study, scan_bounds));
  if (studies.empty()) throw InputError(fmt::format("{}: holds no sample", options.results.paths().front()));
  const std::string page = claims_page(studies);
  if (!options.output.empty()) write_atomically(options.output, page, {.overwrite = options.replace});
  if (global.json)
    std::cout << json_of(studies).sort().dump(2) << '\n';
  else if (options.output.empty())
    std::cout << page;
  else
    for (const ClaimsOfStudy& study : studies)
      std::cout << fmt::format("{}: {}\n", printable(options.output), counts_text(study));
}

}  // namespace

void add_claims(Command& program, const GlobalOptions& global) {
  auto options = std::make_shared<ClaimsOptions>();
  Command& command = program.add_command(
      "claims", "The paper's claims beside what results show: holds, does not hold, cannot tell, with the numbers");
  options->results.add_to(command);
  command.option("-o,--output", options->output, "Markdown file (default: standard output)")
      .takes(file_name())
      .type("FILE");
  command.flag("--force", options->replace, "Replace the file if it is there");
  command.on_run([options, &global] { run_claims(*options, global); });
}

}  // namespace attest
