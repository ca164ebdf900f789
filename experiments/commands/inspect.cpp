// attest inspect: shows what is in a dump, a results file, task outcomes or the folder of an unfinished study; --check
// reads every value.
#include "dumps/inspect/inspect.h"

#include <fmt/core.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "analysis/results/partial_results.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/file_format.h"
#include "experiments/cli/output/progress.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"
#include "experiments/inspect/inspect_results.h"
#include "experiments/inspect/inspect_tasks.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

struct InspectOptions {
  std::string path;
  bool check = false;
  std::uint64_t allowed_memory = 0;
};

void print_json(const Json& document) { std::cout << document.dump(2) << '\n'; }

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
    Json document = summary_json(file);
    if (check) document["check"] = check_json(file, *check);
    print_json(document);
  } else if (check) {
    std::cout << '\n' << check_text(file, *check) << std::flush;
  }
  if (!check) return;
  if (const std::string sentence = verdict(file, *check); !sentence.empty()) throw InputError(sentence);
}

/// `is`: "this study is unfinished".
void refuse_check(const InspectOptions& options, std::string_view is) {
  if (options.check)
    throw UsageError(fmt::format("{}: --check takes a dump or a results file, and {}", options.path, is));
}

void inspect_partial(const InspectOptions& options, const GlobalOptions& global) {
  const PartialStatus status = read_partial_status(options.path);
  refuse_check(options, "this study is unfinished");
  if (global.json)
    print_json(status_json(status));
  else
    std::cout << status_text(status);
}

/// `show` prints task outcomes, of a file or of a folder of unfinished ones.
void show_tasks(void (*show)(const std::string&, bool), const InspectOptions& options, const GlobalOptions& global) {
  refuse_check(options, "these are task outcomes");
  show(options.path, global.json);
}

/// The folder in which `attest capture --resume` keeps finished prompts, each in a dump of its own.
bool is_unfinished_capture(const std::string& folder) {
  std::error_code error;
  return fs::exists(fs::path(folder) / "capture.json", error);
}

void inspect_capture(const InspectOptions& options, const GlobalOptions& global) {
  refuse_check(options, "this capture is unfinished");
  const std::string& folder = options.path;
  std::int64_t finished = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    finished += name.starts_with("dump-") && name.ends_with(".h5") ? 1 : 0;
  }
  if (error) throw InputError(fmt::format("{}: cannot be read ({})", folder, error.message()));
  if (global.json)
    print_json({{"path", folder}, {"format", fmt::format("{}-partial", kDumpFormat)}, {"finished_prompts", finished}});
  else
    std::cout << fmt::format(
        "{}: an unfinished capture, {} finished. The same 'attest capture' command with --resume goes on; --force "
        "starts over.\n",
        printable(folder), counted(finished, "prompt"));
}

void run_inspect(const InspectOptions& options, const GlobalOptions& global) {
  std::error_code error;
  if (fs::is_directory(options.path, error)) {
    if (is_unfinished_capture(options.path)) return inspect_capture(options, global);
    if (has_unfinished_tasks(options.path)) return show_tasks(inspect_unfinished_tasks, options, global);
    return inspect_partial(options, global);
  }
  const std::string partial = PartialResults::folder_of(options.path);
  if (!fs::exists(options.path, error) && fs::is_directory(partial, error))
    throw InputError(fmt::format("{}: there is no such file; what makes it is unfinished, see 'attest inspect {}'",
                                 options.path, partial));
  const std::string format = file_format(options.path);
  if (format == kTasksFormat) return show_tasks(inspect_tasks, options, global);
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

void add_inspect(Command& program, const GlobalOptions& global) {
  auto options = std::make_shared<InspectOptions>();
  Command& command =
      program.add_command("inspect", "What is in a dump, a results file, task outcomes or an unfinished study");
  command
      .option("FILE", options->path,
              "The dump, the results file, the task outcomes, or the folder R.partial of an unfinished study")
      .required();
  command.flag("--check", options->check,
               "Look at every value. Dump: range, NaN, infinities, heads that are all zero. Results: cells that "
               "their metric does not allow. Exit code 4 if anything is wrong");
  command
      .option("--allow-memory", options->allowed_memory,
              "Memory that a layer may take under --check (default: 4GiB, or 16 times the file's bytes on disk)")
      .takes(byte_size())
      .type("SIZE");
  command.on_run([options, &global] {
    if (options->allowed_memory != 0 && !options->check)
      throw UsageError("--allow-memory has no effect without --check");
    run_inspect(*options, global);
  });
}

}  // namespace attest
