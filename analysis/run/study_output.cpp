// Checks of the file that a study is to write.
#include "analysis/run/study_output.h"

#include <fmt/core.h>

#include <filesystem>

#include "analysis/results/partial_results.h"
#include "analysis/results/study_difference.h"
#include "analysis/run/estimate_inputs.h"
#include "analysis/run/manifest.h"
#include "dumps/base/error.h"
#include "dumps/base/output_place.h"

namespace attest {

namespace fs = std::filesystem;

void refuse_inputs(const Study& study, const RunOptions& options, const std::string& output) {
  std::error_code error;
  for (const StudyDump& dump : study.dumps)
    if (fs::equivalent(dump.path, output, error))
      throw UsageError(fmt::format("'{}' is both a dump to read and the results to write", dump.path));
  std::vector<std::string> files = input_files(study);
  files.insert(files.end(), options.inputs.begin(), options.inputs.end());
  for (const std::string& file : files)
    if (fs::equivalent(file, output, error))
      throw UsageError(fmt::format("'{}' is both a file to read and the results to write", file));
}

void check_output(const Study& study, const RunOptions& options) {
  require_replaceable(options.output);
  require_folder_of(options.output);
  std::error_code error;
  const fs::path output = options.output;
  if (!fs::exists(output, error)) return;
  refuse_inputs(study, options, options.output);
  if (!options.force && !options.resume)
    throw OutputError(fmt::format("'{}' exists; --force replaces it", options.output));
}

std::optional<ResultsFile> finished_results(const RunOptions& options, const std::string& configuration,
                                            bool skip_bad_layers) {
  if (!fs::exists(options.output)) return std::nullopt;
  ResultsFile results(options.output);
  if (!same_study(results.manifest(), configuration, skip_bad_layers)) return std::nullopt;
  return results;
}

std::optional<Summary> find_complete(const Study& study, const RunOptions& options, const std::string& configuration,
                                     const std::string& folder) {
  if (!options.resume || !fs::exists(options.output)) return std::nullopt;
  if (options.take && options.force) return std::nullopt;  // a file of before, which the chunks are to replace
  const bool unfinished = PartialResults::exists(folder);
  std::string found;
  try {
    const ResultsFile results(options.output);
    if (same_study(results.manifest(), configuration, study.skip_bad_layers)) {
      PartialResults::remove_own_files(folder);
      return summarize(results, options.with_dense_layers);
    }
    found = other_study_text(options.output, kind_of_other_study(results.manifest(), configuration));
  } catch (const InputError& error) {
    found = error.what();
    if (!options.force && !unfinished)
      throw OtherStudyError<InputError>(fmt::format("cannot resume: {}", found), found);
  }
  if (options.force) return std::nullopt;
  if (unfinished)
    throw OtherStudyError<OutputError>(
        fmt::format("'{}' exists; --force replaces it once the study is complete", options.output), found);
  throw OtherStudyError<UsageError>(
      fmt::format("cannot resume: '{}' is complete and was made with other options or inputs", options.output), found);
}

}  // namespace attest
