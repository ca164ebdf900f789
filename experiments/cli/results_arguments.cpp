// Opens results files.
#include "experiments/cli/results_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

bool holds_a_layer(const ResultsFile& file) {
  const Study& study = file.study();
  bool left_out = false;
  for (std::size_t d = 0; d < study.dumps.size(); ++d)
    for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s)
      for (std::size_t i = 0; i < study.selectors.size(); ++i) {
        const std::vector<std::uint8_t>& done = file.done(d, s, i);
        if (std::ranges::find(done, 1) != done.end()) return true;
        left_out |= !done.empty();
      }
  return !left_out;  // a file without samples has other words
}

}  // namespace

void ResultsArguments::add_to(CLI::App& command, const std::string& more) {
  command.add_option("RESULTS", paths_, "Results files of `attest run`; those of one model are pooled" + more)
      ->required();
}

ResultsFiles ResultsArguments::open(const std::vector<std::string>& paths) {
  files_.clear();
  pointers_.clear();
  files_.reserve(paths.size());
  for (const std::string& path : paths) {
    pointers_.push_back(&files_.emplace_back(path));
    if (!holds_a_layer(files_.back()))
      throw InputError(
          printable(fmt::format("{}: no layer was studied, because --skip-bad-layers left all out", path)));
  }
  return pointers_;
}

}  // namespace attest
