// attest inspect: shows what is in a dump; --check reads every value.
#include "dumps/inspect/inspect.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "dumps/base/error.h"
#include "dumps/format/dump_reader.h"
#include "experiments/cli/progress.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

struct InspectOptions {
  std::string path;
  bool check = false;
};

DumpCheck check_with_progress(const DumpReader& dump, const GlobalOptions& global) {
  Progress progress("layers", global.quiet);
  return check_dump(dump, [&](std::size_t done, std::size_t total) { progress.show(done, total, 0); });
}

void print_json(const DumpReader& dump, const std::optional<DumpCheck>& check) {
  nlohmann::ordered_json document = summary_json(dump);
  if (check) document["check"] = check_json(dump, *check);
  // Names in a dump may be any bytes; JSON must be UTF-8.
  std::cout << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void run_inspect(const InspectOptions& options, const GlobalOptions& global) {
  const DumpReader dump(options.path);
  if (!global.json) std::cout << summary_text(dump) << std::flush;
  std::optional<DumpCheck> check;
  if (options.check) check = check_with_progress(dump, global);
  if (global.json) {
    print_json(dump, check);
  } else if (check) {
    std::cout << '\n' << check_text(dump, *check) << std::flush;
  }
  if (check && check->num_bad_layers() > 0) throw InputError(verdict(dump, *check));
}

}  // namespace

void add_inspect(CLI::App& app, const GlobalOptions& global) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "What is in a dump");
  command->add_option("DUMP", options->path, "The dump")->required();
  command->add_flag(
      "--check", options->check,
      "Look at every value: range, NaN, infinities, heads that are all zero; exit code 4 for NaN or infinity");
  command->callback([options, &global] { run_inspect(*options, global); });
}

}  // namespace attest
