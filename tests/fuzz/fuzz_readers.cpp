// fuzz_readers: every reader of untrusted input, written in C++, on made inputs. CONTRIBUTING.md says how it is used.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "experiments/cli/parse/command.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/fuzz/fuzz_targets.h"

namespace attest::fuzz {
namespace {

const TargetInfo& target_named(const std::string& name) {
  for (const TargetInfo* target : all_targets())
    if (name == target->name) return *target;
  for (const TargetInfo* planted : {&kThrowsTarget, &kCrashesTarget, &kHangsTarget, &kSwellsTarget})
    if (name == planted->name) return *planted;
  throw UsageError(fmt::format("--reader: there is no '{}'; --list shows the readers", name));
}

bool run_one(const TargetInfo& target, const DriverOptions& options) {
  const DriverReport report = drive(target, options);
  const std::uint64_t inputs = report.accepted + report.refused + report.failed;
  std::printf(
      "%-9s  %9llu inputs in %.1f s (%.0f/s, %.0f in a second of a core): %llu accepted, %llu refused, %llu failed, "
      "%llu crashes and %llu loops of HDF5, %llu of them read again, %llu repaired, %llu not made; worst %.3f s (input "
      "%llu), peak %ld MiB, children %ld MiB\n",
      target.name, static_cast<unsigned long long>(inputs), report.seconds,
      static_cast<double>(inputs) / report.seconds, static_cast<double>(inputs) / report.processor_seconds,
      static_cast<unsigned long long>(report.accepted), static_cast<unsigned long long>(report.refused),
      static_cast<unsigned long long>(report.failed), static_cast<unsigned long long>(report.crashes),
      static_cast<unsigned long long>(report.loops), static_cast<unsigned long long>(report.again),
      static_cast<unsigned long long>(report.repaired), static_cast<unsigned long long>(report.unmade),
      report.worst_seconds, static_cast<unsigned long long>(report.worst_input), report.peak_kib / 1024,
      report.peak_child_kib / 1024);
  std::fflush(stdout);
  return report.failed == 0 && inputs > 0 && report.unmade <= kMaxFailures + inputs / 100;
}

struct FuzzOptions {
  DriverOptions driver;
  std::vector<std::string> names;
  std::vector<std::string> files;
  std::string saved;
  bool list = false, short_run = false;
};

int fuzz(const FuzzOptions& command) {
  DriverOptions options = command.driver;
  if (options.variants == 0) throw UsageError("--variants: expected at least 1");
  std::vector<const TargetInfo*> targets;
  for (const std::string& name : command.names) targets.push_back(&target_named(name));
  if (command.list) {
    for (const TargetInfo* target : all_targets()) std::printf("%s\n", target->name);
    return 0;
  }
  if (!command.files.empty() || !command.saved.empty()) {
    if (targets.size() != 1) throw UsageError("--file and --save need one --reader");
    for (const std::string& file : command.files) replay(*targets[0], file);
    if (!command.files.empty()) return 0;
    for (std::uint64_t i = 0; i < std::max<std::uint64_t>(options.runs, 1); ++i) {
      const std::uint64_t number = options.first + i;
      write_atomically(options.runs == 0 ? command.saved : fmt::format("{}/{}", command.saved, number),
                       make_input(*targets[0], options, number), {.sync = false});
    }
    return 0;
  }
  if (targets.empty()) targets.assign(all_targets().begin(), all_targets().end());
  options.seconds /= static_cast<double>(targets.size());
  bool good = true;
  for (const TargetInfo* target : targets) {
    DriverOptions own = options;
    if (command.short_run || (own.runs == 0 && own.seconds == 0)) own.runs = target->short_runs;
    if (command.short_run) own.variants = std::min<std::uint64_t>(own.variants, 4);
    good = run_one(*target, own) && good;
  }
  return good ? 0 : 1;
}

int run(int argc, char** argv) {
  Command program("fuzz_readers",
                  "Reads mutated inputs with attest's readers and checks that each is accepted or refused as promised");
  FuzzOptions options;
  DriverOptions& driver = options.driver;
  const Check number = seed_number(), real = nonnegative_number();
  program.option("--reader", options.names, "Which readers (default: all)").separated();
  program.option("--runs", driver.runs, "Inputs of each reader").takes(number);
  program.option("--seconds", driver.seconds, "Time for all readers together").takes(real);
  program.option("--seed", driver.seed, "Seed; the inputs are a function of it").takes(number).shows_default();
  program.option("--first", driver.first, "Number of the first input").takes(number).shows_default();
  program.option("--most-seconds", driver.max_seconds, "Seconds of the processor that one input may take")
      .takes(real)
      .shows_default();
  program.option("--most-gib", driver.max_gib, "Memory that one input may take").takes(real).shows_default();
  program.option("--variants", driver.variants, "Inputs of one file that HDF5 made; 4 in a short run")
      .takes(number)
      .shows_default();
  program.flag("--guarded", driver.guarded, "HDF5 files are read in a child each, as the program reads them");
  program.option("--failures", driver.failures, "Folder for inputs that failed (default: that for temporary files)");
  program.option("--file", options.files, "Reads these inputs once, in this process").separated();
  program.option(
      "--save", options.saved,
      "Writes the input --first to this file and reads nothing; with --runs so many, to files in this folder");
  program.flag("--short", options.short_run, "The inputs of a short test, about a second for each reader");
  program.flag("--list", options.list, "Lists the readers");
  int status = 0;
  program.on_run([&] { status = fuzz(options); });
  program.parse({argv + 1, argv + argc});
  program.run();
  return status;
}

}  // namespace
}  // namespace attest::fuzz

int main(int argc, char** argv) {
  try {
    return attest::fuzz::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_readers: %s\n", error.what());
    return 2;
  }
}
