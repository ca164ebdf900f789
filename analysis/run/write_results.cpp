// Writes the manifest of a complete study.
#include "analysis/run/write_results.h"

#include <fmt/format.h>

#include <chrono>

#include "analysis/run/manifest.h"
#include "dumps/base/utc_time.h"

namespace attest {

void write_results(const PreparedStudy& run, const RunReport& report, const PartialResults& partial,
                   ResultsAssembly& assembly, InputGuard& inputs, const StudyObserver& observer,
                   const std::function<void()>& before_removal) {
  assembly.finish(manifest_json(run.study, run.provenance, run.configuration,
                                {.command_line = run.options.command_line,
                                 .device = report.device,
                                 .started = partial.start_time(),
                                 .ended = utc_time(std::chrono::system_clock::now()),
                                 .input_hashes = inputs.finish(),
                                 .left_out = assembly.left_out()}));
  if (before_removal) before_removal();
  PartialResults::remove_own_files(partial.folder());
  if (const std::string foreign = PartialResults::foreign_entry(partial.folder()); !foreign.empty())
    observer.notice(fmt::format("'{}' stays: '{}' in it does not belong to a study", partial.folder(), foreign));
}

}  // namespace attest
