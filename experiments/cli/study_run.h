// What `attest run` and `attest validate` do alike to run a study.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/run/run_study.h"
#include "experiments/cli/global_options.h"
#include "kernels/selectors/options.h"

namespace attest {

/// The selector of --selector. Throws UsageError that names the option.
std::shared_ptr<Selector> make_typed_selector(const SelectorSpec& spec);

/// Throws UsageError if a dump is given twice: its cells would count twice.
void check_dumps(const std::vector<std::string>& paths);

/// run_study() with progress, notices and interruption. Of `options`, device, threads, program and command line are
/// filled in. `typed_grids`: the grids that the user gave. `bad_layer_advice`: StudyObserver's; empty: its default.
/// `time_limit`: the study is interrupted then; 0: never.
RunReport run_typed_study(Study study, RunOptions options, const GlobalOptions& global,
                          const std::map<SettingKind, std::string>& typed_grids,
                          const std::string& bad_layer_advice = "", std::chrono::milliseconds time_limit = {});

}  // namespace attest
