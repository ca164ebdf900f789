// The last step of a study: the manifest, the results file's name, and the end of the folder of partial results.
#pragma once

#include <functional>

#include "analysis/results/partial_results.h"
#include "analysis/run/input_guard.h"
#include "analysis/run/prepared_study.h"
#include "analysis/run/results_assembly.h"
#include "analysis/run/run_study.h"

namespace attest {

/// `assembly` must be complete. Waits for the hashes of the inputs. Throws what InputGuard::finish() throws, and
/// OutputError. `before_removal` is called when the file has its name, before the folder is removed.
void write_results(const PreparedStudy& run, const RunReport& report, const PartialResults& partial,
                   ResultsAssembly& assembly, InputGuard& inputs, const StudyObserver& observer,
                   const std::function<void()>& before_removal = {});

}  // namespace attest
