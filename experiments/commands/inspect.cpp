// attest inspect: shows what is in a dump, a results file, task outcomes or the folder of an unfinished study; --check
// reads every value.
#include "dumps/inspect/inspect.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "analysis/results/partial_results.h"
#include "dumps/base/error.h"
#include "dumps/format/dump_reader.h"
#include "dumps/inspect/file_format.h"
#include "experiments/cli/checks.h"
#include "experiments/cli/progress.h"
#include "experiments/cli/python_script.h"
#include "experiments/cli/version.h"
#include "experiments/commands/commands.h"
#include "experiments/commands/inspect_results.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

struct InspectOptions {
  std::string path;
  bool check = false;
  std::uint64_t allowed_memory = 0;
};

void print_json(const nlohmann::ordered_json& document) {
  // Names in a file may be any bytes; JSON must be UTF-8.
  std::cout << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

/// Shows a dump or a results file. `check_values(progress)` looks at every value; its steps are `unit`.
template <class File, class CheckValues>
void inspect_file(const File& file, const char* unit, const InspectOptions& options, const GlobalOptions& global,
                  const CheckValues& check_values) {
  if (!global.json) std::cout << summary_text(file) << std::flush;
  std::optional<std::invoke_result_t<CheckValues, CheckProgress>> check;
  if (options.check) {
    Progress progress(unit, global.quiet);
    check = check_values([&](std::size_t done, std::size_t total) { progress.show(done, total, 0); });
  }
  if (global.json) {
    nlohmann::ordered_json document = summary_json(file);
    if (check) document["check"] = check_json(file, *check);
    print_json(document);
  } else if (check) {
    std::cout << '\n' << check_text(file, *check) << std::flush;
  }
  if (!check) return;
  if (const std::string sentence = verdict(file, *check); !sentence.empty()) throw InputError(sentence);
}

void inspect_partial(const InspectOptions& options, const GlobalOptions& global) {
  const PartialStatus status = read_partial_status(options.path);
  if (options.check)
    throw UsageError(
        fmt::format("{}: --check takes a dump or a results file, and this study is unfinished", options.path));
  if (global.json)
    print_json(status_json(status));
  else
    std::cout << status_text(status);
}

/// Of `attest tasks`: a file, or the folder of unfinished ones.
[[noreturn]] void show_outcomes(const InspectOptions& options, const GlobalOptions& global) {
  if (options.check)
    throw UsageError(
        fmt::format("{}: --check takes a dump or a results file, and these are task outcomes", options.path));
  std::vector<std::string> arguments{"--", options.path};
  if (global.json) arguments.insert(arguments.begin(), "--json");
  exec_script(python_interpreter(), "experiments/tasks/show_outcomes.py", arguments);
}

void run_inspect(const InspectOptions& options, const GlobalOptions& global) {
  std::error_code error;
  if (fs::is_directory(options.path, error)) {
    if (fs::exists(fs::path(options.path) / "tasks.json", error)) show_outcomes(options, global);
    return inspect_partial(options, global);
  }
  const std::string partial = PartialResults::folder_of(options.path);
  if (!fs::exists(options.path, error) && fs::is_directory(partial, error))
    throw InputError(fmt::format("{}: there is no such file; its study is unfinished, see 'attest inspect {}'",
                                 options.path, partial));
  const std::string format = file_format(options.path);
  if (format == kTasksFormat) show_outcomes(options, global);
  if (format == kStudyFormat) {
    const ResultsFile results(options.path);
    inspect_file(results, "arrays", options, global,
                 [&](const CheckProgress& progress) { return check_results(results, progress); });
    return;
  }
  const DumpReader dump(options.path, options.allowed_memory);
  inspect_file(dump, "layers", options, global,
               [&](const CheckProgress& progress) { return check_dump(dump, progress); });
}

}  // namespace

void add_inspect(CLI::App& app, const GlobalOptions& global) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      app.add_subcommand("inspect", "What is in a dump, a results file, task outcomes or an unfinished study");
  command
      ->add_option("FILE", options->path,
                   "The dump, the results file, the task outcomes, or the folder R.partial of an unfinished study")
      ->required();
  command->add_flag("--check", options->check,
                    "Look at every value. Dump: range, NaN, infinities, heads that are all zero. Results: cells that "
                    "their metric does not allow. Exit code 4 if anything is wrong");
  command
      ->add_option("--allow-memory", options->allowed_memory,
                   "Memory that a layer may take under --check (default: 4GiB, or 16 times the file's bytes on disk)")
      ->transform(byte_size())
      ->type_name("SIZE");
  command->callback([options, &global] { run_inspect(*options, global); });
}

}  // namespace attest
