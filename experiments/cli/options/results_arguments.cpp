// Opens results files.
#include "experiments/cli/options/results_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "analysis/outcomes/tasks_file.h"
#include "analysis/study/mixed_models.h"
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

bool begins_like_json(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // to open a pipe may wait for ever
  std::ifstream file(path, std::ios::binary);
  char first = 0;
  return file.get(first) &&
         (first == '{' || (std::isspace(static_cast<unsigned char>(first)) && file >> first && first == '{'));
}

}  // namespace

void ResultsArguments::add_to(Command& command, const std::string& more) {
  command.option("RESULTS", paths_, "Results files of `attest run`; those of one model are pooled" + more).required();
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

void warn_of_mixed_models(const ResultsFiles& files, const GlobalOptions& global) {
  if (global.quiet) return;
  std::vector<StudyDump> dumps;
  for (const ResultsFile* file : files) std::ranges::copy(file->study().dumps, std::back_inserter(dumps));
  for (const std::string& notice : mixed_model_notices(dumps)) std::cerr << printable("warning: " + notice) << '\n';
}

FigureInputs split_inputs(const std::vector<std::string>& paths) {
  FigureInputs inputs;
  for (const std::string& path : paths) {
    const bool bench = path.ends_with(".json") || begins_like_json(path);
    (bench ? inputs.benches : is_tasks_file(path) ? inputs.tasks : inputs.results).push_back(path);
  }
  return inputs;
}

}  // namespace attest
