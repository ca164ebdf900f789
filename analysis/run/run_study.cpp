// Runs a study: checks inputs and output, computes the missing units, writes the results file.
#include "analysis/run/run_study.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "analysis/results/partial_results.h"
#include "analysis/results/results_file.h"
#include "analysis/run/folder_session.h"
#include "analysis/run/input_guard.h"
#include "analysis/run/locked_unit_queue.h"
#include "analysis/run/prepared_study.h"
#include "analysis/run/ranked_study.h"
#include "analysis/run/results_finish.h"
#include "analysis/run/study_output.h"
#include "analysis/run/write_results.h"
#include "analysis/study/calibration.h"
#include "analysis/study/short_contexts.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

/// Computes the units that are missing, and writes the results file unless another process does.
void compute(const PreparedStudy& run, PartialResults& partial, const std::atomic<bool>& stop,
             const StudyObserver& observer, RunReport& report) {
  calibrate(run.study, run.plan, run.readers[0], &stop);
  InputGuard inputs(run.inputs, partial, *run.hashes, stop);
  StudyObserver guarded = observer;
  guarded.progress = [&](const StudyProgress& progress) {
    report.progress = progress;
    observer.progress(progress);
    inputs.poll();
  };
  for (const std::string& notice : short_context_notices(run.study)) observer.notice(notice);
  ResultsFinish results(run.study, run.plan, run.options.with_dense_layers, partial, run.options.output);
  const UnitSink add_to_results = [&](const UnitKey& unit, const LayerResults& found, UnitOrigin origin) {
    results.add(unit, found);
    run.take_hashes(unit, found, origin);
  };
  try {
    LockedUnitQueue queue(partial, run.plan, run.study.skip_bad_layers);
    run.compute(queue, add_to_results, stop, guarded);
  } catch (const OutputError&) {
    if (!results.done_by_another()) throw;
  }

  ResultsAssembly& assembly = results.assembly();
  if (results.wait_to_write(stop)) {
    report.summary = assembly.summary();
    write_results(run, report, partial, assembly, inputs, observer);
    return;
  }
  const std::optional<ResultsFile> found = finished_results(run.options, run.configuration, run.study.skip_bad_layers);
  if (!found)
    throw OutputError(fmt::format("'{}' was removed while the study ran, and there are no results", partial.folder()));
  report.outcome = RunReport::Outcome::completed_by_another_process;
  report.summary = assembly.complete() ? assembly.summary() : summarize(*found, run.options.with_dense_layers);
}

}  // namespace

RunReport run_study(Study study, RunOptions options, const std::atomic<bool>& stop, const StudyObserver& observer) {
  if (options.ranks) return run_ranked_study(std::move(study), std::move(options), stop, observer);
  check_output(study, options);
  const std::unique_ptr<PreparedStudy> run = prepare_study(std::move(study), std::move(options), true, stop, observer);
  RunReport report{
      .outcome = RunReport::Outcome::computed, .progress = {}, .device = run->device_text(), .summary = {}};

  const std::string folder = PartialResults::folder_of(run->options.output);
  if (std::optional<Summary> complete = find_complete(run->study, run->options, run->configuration, folder)) {
    report.outcome = RunReport::Outcome::found_complete;
    report.summary = std::move(*complete);
    return report;
  }
  const bool resume = run->options.resume;
  FolderSession::require_none(folder, stop, observer.notice);
  if (run->options.force && !resume) PartialResults::discard(folder);
  PartialResults partial(folder, resume ? PartialResults::Start::resume : PartialResults::Start::fresh,
                         run->configuration, &run->study);
  if (!partial.is_shared())
    observer.notice(
        fmt::format("the file system of '{}' has no locks: no other process can take part in this study", folder));
  // After an error, a folder without finished units would only make the next run refuse to start.
  const auto discard_if_empty = [&] {
    if (!resume && report.progress.finished == 0) PartialResults::remove_own_files(folder);
  };
  try {
    compute(*run, partial, stop, observer, report);
    return report;
  } catch (const Interrupted&) {
    throw Interrupted(fmt::format("interrupted with {} of {} layers finished; the same command with --resume goes on",
                                  report.progress.finished, run->plan.units.size()));
  } catch (const DeviceError& error) {
    discard_if_empty();
    if (report.progress.finished == 0) throw;
    throw DeviceError(fmt::format("{}; {} of {} layers are finished, the same command with --resume goes on",
                                  error.what(), report.progress.finished, run->plan.units.size()));
  } catch (...) {
    discard_if_empty();
    throw;
  }
}

}  // namespace attest
