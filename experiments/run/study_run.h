// How a command runs a study: `attest run` and `attest validate` alike.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/run/launcher.h"
#include "analysis/run/run_study.h"
#include "analysis/study/study.h"
#include "experiments/cli/options/global_options.h"

namespace attest {

/// Throws UsageError if a dump is given twice: its cells would count twice.
void check_dumps(const std::vector<std::string>& paths);

/// run_study() with progress, notices and interruption. Of `options`, device, threads, program and command line are
/// filled in. `typed_grids`: the grids that the user gave. `bad_layer_advice`: StudyObserver's; empty: its default.
/// `time_limit`: the study is interrupted then; 0: never. `launch`: what the launcher says, if there is one.
RunReport run_typed_study(Study study, RunOptions options, const GlobalOptions& global,
                          const std::map<SettingKind, std::string>& typed_grids,
                          const std::string& bad_layer_advice = "", std::chrono::milliseconds time_limit = {},
                          const std::optional<Launch>& launch = {});

/// Sentences about grids that no selector of the study uses, and about selectors that are the same under two labels.
/// `grids` has the grids as typed; an empty text is none.
std::vector<std::string> study_notices(const Study& study, const std::map<SettingKind, std::string>& grids);

}  // namespace attest
