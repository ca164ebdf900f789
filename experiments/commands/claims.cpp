// attest claims: the paper's claims beside what results show.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/claims/claims_page.h"
#include "experiments/cli/checks.h"
#include "experiments/cli/output_file.h"
#include "experiments/cli/results_arguments.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

struct ClaimsOptions {
  ResultsArguments results;
  std::string output;
  bool replace = false;
};

nlohmann::json json_of(const std::vector<CheckedClaim>& claims) {
  nlohmann::json list = nlohmann::json::array();
  for (const CheckedClaim& c : claims)
    list.push_back({{"claim", c.claim.statement},
                    {"place", c.claim.place},
                    {"figure", c.claim.figure},
                    {"verdict", verdict_text(c.result.verdict)},
                    {"evidence", printable(c.result.evidence)},
                    {"run_options", c.result.run_options}});
  return list;
}

nlohmann::json json_of(const std::vector<ClaimsOfStudy>& studies) {
  nlohmann::json list = nlohmann::json::array();
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

  ScanBounds scan_bounds;
  std::vector<ClaimsOfStudy> studies;
  for (const ModelStudy& study : split_studies(files)) studies.push_back(check_claims(study, scan_bounds));
  if (studies.empty()) throw InputError(fmt::format("{}: holds no sample", options.results.paths().front()));
  const std::string page = claims_page(studies);
  if (!options.output.empty()) write_atomically(options.output, page, {.overwrite = options.replace});
  if (global.json)
    std::cout << json_of(studies).dump(2) << '\n';
  else if (options.output.empty())
    std::cout << page;
  else
    for (const ClaimsOfStudy& study : studies) std::cout << fmt::format("{}: {}\n", options.output, counts_text(study));
}

}  // namespace

void add_claims(CLI::App& app, const GlobalOptions& global) {
  auto options = std::make_shared<ClaimsOptions>();
  CLI::App* command = app.add_subcommand(
      "claims", "The paper's claims beside what results show: holds, does not hold, cannot tell, with the numbers");
  options->results.add_to(*command);
  command->add_option("-o,--output", options->output, "Markdown file (default: standard output)")
      ->transform(text_that_is("a file's name"))
      ->type_name("FILE");
  command->add_flag("--force", options->replace, "Replace the file if it is there");
  command->callback([options, &global] { run_claims(*options, global); });
}

}  // namespace attest
