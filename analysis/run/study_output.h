// The file that a study is to write: what may be there, and whether it holds the study already.
#pragma once

#include <optional>
#include <string>

#include "analysis/results/results_file.h"
#include "analysis/run/run_study.h"
#include "analysis/statistics/summary.h"
#include "analysis/study/study.h"

namespace attest {

/// Throws UsageError if `output` is a file that the study or the command reads: it would be destroyed.
void refuse_inputs(const Study& study, const RunOptions& options, const std::string& output);

/// Throws OutputError if the output cannot be written or exists without `force` or `resume`, UsageError if it is an
/// input.
void check_output(const Study& study, const RunOptions& options);

/// The output file if it already holds the finished study. This happens if another process finished it, or if a run was
/// killed after it wrote the results and before it removed the folder of partial results. Throws InputError if the
/// output is no results file.
std::optional<ResultsFile> finished_results(const RunOptions& options, const std::string& configuration,
                                            bool skip_bad_layers);

/// The summary of an output that holds the complete study already. Throws if --resume finds something else there.
/// `folder`: that of the partial results; removed if the study is complete.
std::optional<Summary> find_complete(const Study& study, const RunOptions& options, const std::string& configuration,
                                     const std::string& folder);

}  // namespace attest
