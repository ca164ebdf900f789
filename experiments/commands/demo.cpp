// attest demo: inspect, run, figures, claims and report on the dumps that come with the sources.
#include <fmt/core.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/cli/process/version.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using AddCommand = void (*)(Command&, const GlobalOptions&);

/// This file marks a folder as made by a demo, which the next demo may overwrite.
constexpr const char* kMark = "about-this-folder.txt";
constexpr const char* kMarkText =
    "Made by `attest demo`, which writes over what it made here.\n"
    "results.h5 is a study of dumps/demo.h5 and dumps/demo-long.h5; report.html shows it in a browser; claims.md sets "
    "the paper beside it; each figure has its picture, its data (csv) and its gnuplot script (gp).\n";

constexpr const char* kReport = "report.html";
constexpr const char* kClaims = "claims.md";

struct DemoOptions {
  std::string folder = "attest-demo";
};

/// Captures what is written to std::cout during its lifetime.
class CapturedOutput {
 public:
  CapturedOutput() : shown_(std::cout.rdbuf(kept_.rdbuf())) {}
  ~CapturedOutput() { std::cout.rdbuf(shown_); }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  std::string text() const { return kept_.str(); }

 private:
  std::ostringstream kept_;
  std::streambuf* shown_;
};

/// Runs one command line in this process, as a user would type it after `attest`.
void run_command(AddCommand add, const std::vector<std::string>& words, const GlobalOptions& global) {
  Command program("attest", "");
  add(program, global);
  program.parse(words);
  try {
    program.run();
  } catch (const Interrupted&) {
    throw Interrupted("the demo was interrupted; run it again to start over");
  }
}

void claim_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::exists(folder / kMark, error)) {
    const bool empty_folder = fs::is_directory(folder, error) && fs::is_empty(folder, error);
    if (!empty_folder)
      throw OutputError(
          fmt::format("{} is there already and is not a demo's folder: choose another with -o", folder.string()));
  }
  fs::create_directories(folder, error);
  if (error) throw OutputError(fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
  try {
    write_atomically((folder / kMark).string(), kMarkText);
  } catch (const OutputError&) {
    fs::remove(folder, error);  // if it is empty
    throw;
  }
}

struct Step {
  std::string name;
  AddCommand add;
  std::vector<std::string> words;
};

/// FFD, variants of FFD that change one choice each, and the methods that it is compared with; all on the same layers.
std::vector<Step> steps_of(const std::string& dump, const std::string& long_dump, const std::string& weights,
                           const fs::path& folder) {
  const std::string results = (folder / "results.h5").string();
  std::vector<std::string> study = {"run", dump, long_dump, "--weights", weights, "-o", results, "--force"};
  for (const char* selector :
       {"ffd", "ffd:gqa=per_head", "ffd:rule=topk", "quest:dense_layers=0", "streaming_llm", "topk", "topp", "topdelta",
        "kv_fp8=kv_cache:k=fp8_e4m3,v=fp8_e4m3", "k_fp8=kv_cache:k=fp8_e4m3", "v_fp8=kv_cache:v=fp8_e4m3"})
    study.insert(study.end(), {"--selector", selector});
  study.insert(study.end(), {"--delta", "1,2,3,4,5,6,7,9,12", "--budget", "12.5%,25%,50%,75%,100%", "--p",
                             "0.5,0.7,0.85,0.95,0.99,0.999"});
  return {{"inspect", add_inspect, {"inspect", dump}},
          {"inspect_long", add_inspect, {"inspect", long_dump}},
          {"run", add_run, study},
          {"figures", add_figures, {"figures", results, "-o", folder.string(), "--force"}},
          {"claims", add_claims, {"claims", results, "-o", (folder / kClaims).string(), "--force"}},
          {"report", add_report, {"report", results, "-o", (folder / kReport).string(), "--force"}}};
}

/// Path of an embedded file, as a user in the source tree would type it.
std::string embedded_file(const char* name) {
  const fs::path dump = fs::path(demo_folder()) / name;
  std::error_code error;
  if (!fs::exists(dump, error))
    throw InputError(fmt::format("{} is missing: the demo needs the files it was built with", dump.string()));
  const std::string near = fs::proximate(dump, error).string();
  return error || near.starts_with("..") ? dump.string() : near;
}

void run_demo(const DemoOptions& options, const GlobalOptions& global) {
  const std::string dump = embedded_file("demo.h5"), long_dump = embedded_file("demo-long.h5"),
                    weights = embedded_file("demo.weights.json");
  claim_folder(options.folder);
  Json document{{"folder", options.folder}};
  for (const Step& step : steps_of(dump, long_dump, weights, options.folder)) {
    if (global.json) {
      const CapturedOutput output;
      run_command(step.add, step.words, global);
      document[step.name] = parse_json(output.text());
    } else {
      std::cout << fmt::format("\n$ attest {}\n", join(step.words, " ")) << std::flush;
      run_command(step.add, step.words, global);
    }
  }
  if (global.json) {
    std::cout << document.dump(2) << '\n';
    return;
  }
  std::error_code error;
  const fs::path report = fs::absolute(fs::path(options.folder) / kReport, error);
  std::cout << fmt::format(
      "\nThe pictures are in {}/ as png, svg and pdf, each beside its data (csv) and its script (gp).\n"
      "Open the report in a browser: {}\n",
      printable(options.folder), printable(error ? kReport : report.lexically_normal().string()));
}

}  // namespace

void add_demo(Command& program, const GlobalOptions& global) {
  auto options = std::make_shared<DemoOptions>();
  Command& command =
      program.add_command("demo", "Inspect, run, figures, claims and report on the dumps that come with the sources");
  command.option("-o,--output", options->folder, "Folder for what it makes")
      .takes(folder_name())
      .shows_default()
      .type("DIR");
  command.on_run([options, &global] { run_demo(*options, global); });
}

}  // namespace attest
