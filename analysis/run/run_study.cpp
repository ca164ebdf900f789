#include "analysis/run/run_study.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "analysis/layer/make_layer_study.h"
#include "analysis/results/partial_results.h"
#include "analysis/results/results_file.h"
#include "analysis/run/estimate_inputs.h"
#include "analysis/run/input_guard.h"
#include "analysis/run/manifest.h"
#include "analysis/study/calibration.h"
#include "analysis/study/short_contexts.h"
#include "dumps/base/error.h"
#include "dumps/base/utc_time.h"
#include "dumps/format/dump_reader.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr auto kPollInterval = std::chrono::milliseconds(100);
constexpr const char* kCudaPrecision =
    "float32 sums of products of exact 16-bit parts; quantisers in float32; kept sets decided in float32";
constexpr const char* kCpuPrecision =
    "quantisers float32; scores, thresholds, softmax, sums and metrics float64; stored float32";

void check_output(const Study& study, const RunOptions& options) {
  std::error_code error;
  const fs::path output = options.output;
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error))
    throw OutputError(fmt::format("cannot write '{}': there is no folder '{}'", options.output, folder.string()));
  if (!fs::exists(output, error)) return;
  if (!fs::is_regular_file(output, error)) throw OutputError(fmt::format("'{}' exists and is no file", options.output));
  for (const StudyDump& dump : study.dumps)
    if (fs::equivalent(dump.path, output, error))
      throw UsageError(fmt::format("'{}' is both a dump to read and the results to write", dump.path));
  for (const std::string& file : input_files(study))
    if (fs::equivalent(file, output, error))
      throw UsageError(fmt::format("'{}' is both a file to read and the results to write", file));
  if (!options.force && !options.resume)
    throw OutputError(fmt::format("'{}' exists; --force replaces it", options.output));
}

/// The output, if it is the finished study already: then a run that was killed between its last two steps, or another
/// process, has left nothing to do.
std::optional<ResultsFile> finished_results(const RunOptions& options, const std::string& configuration) {
  try {
    if (!fs::exists(options.output)) return std::nullopt;
    ResultsFile results(options.output);
    if (same_study(results.manifest(), configuration)) return results;
  } catch (const InputError&) {
  }
  return std::nullopt;
}

std::vector<DumpReader> open_dumps(const Study& study) {
  std::vector<DumpReader> readers;
  for (const StudyDump& dump : study.dumps) readers.emplace_back(dump.path);
  return readers;
}

/// Throws UsageError where the dumps' head dimensions do not suit a selector that was asked for; others are left out.
void fit_selectors(Study& study, const std::vector<DumpReader>& readers, const StudyObserver& observer) {
  std::erase_if(study.selectors, [&](const StudySelector& chosen) {
    try {
      for (const DumpReader& reader : readers)
        chosen.selector->check(reader.info().shape.head_dim, reader.info().shape.value_dim);
      return false;
    } catch (const UsageError& error) {
      if (!chosen.by_default) throw;
      observer.notice(fmt::format("'{}' is left out: {}", chosen.label, error.what()));
      return true;
    }
  });
}

StudyPlan make_plan(const std::vector<DumpReader>& readers, Study& study) {
  std::vector<const DumpInfo*> infos;
  for (const DumpReader& reader : readers) infos.push_back(&reader.info());
  return plan_study(infos, study);
}

Provenance provenance_of(const Study& study, const RunOptions& options) {
  const bool cuda = options.device.kind == DeviceKind::cuda;
  Provenance provenance{.program = options.program,
                        .git_commit = options.git_commit,
                        .device = cuda ? "cuda" : "cpu",
                        .precision = cuda ? kCudaPrecision : kCpuPrecision,
                        .inputs = {}};
  for (const StudyDump& dump : study.dumps) provenance.inputs.push_back(input_status(dump.path));
  for (const std::string& file : input_files(study)) provenance.inputs.push_back(input_status(file));
  return provenance;
}

/// On the device that was asked for; where `auto` took a GPU that a selector or a metric has no code for, on the CPU.
std::unique_ptr<LayerStudy> make_study_on_device(const Study& study, RunOptions& options,
                                                 const StudyObserver& observer) {
  try {
    return make_layer_study(study, options.device, options.threads);
  } catch (const NoCudaCode& error) {
    if (!options.device.automatic) throw;
    observer.notice(fmt::format("{}; the CPU is used", error.what()));
    options.device = {};
    return make_layer_study(study, options.device, options.threads);
  }
}

/// The right to write the results; empty when another process has done it.
std::optional<UnitClaim> claim_finish(PartialResults& partial, const std::atomic<bool>& stop) {
  for (;;) {
    std::optional<UnitClaim> claim = partial.claim_finish();
    if (!partial.in_place()) return std::nullopt;
    if (claim) return claim;
    if (stop) throw Interrupted("interrupted");
    std::this_thread::sleep_for(kPollInterval);
  }
}

/// Gathers the finished units into the results file and the summary.
class Assembly {
 public:
  Assembly(const Study& study, const StudyPlan& plan, const RunOptions& options, const PartialResults& partial)
      : writer_(options.output, study, partial.folder()), summary_(study, options.with_dense_layers) {
    for (const UnitKey& unit : plan.units) {
      const std::optional<LayerResults> results = partial.load(unit);
      if (!results)
        throw OutputError(fmt::format(
            "'{}.partial': a finished layer has become unreadable; --resume computes it again", options.output));
      writer_.add(*results);
      summary_.add(*results);
      if (!results->done) left_out_.push_back(unit);
    }
  }

  const std::vector<UnitKey>& left_out() const { return left_out_; }
  Summary summary() const { return summary_.finish(); }
  void finish(const std::string& manifest) { writer_.finish(manifest); }

 private:
  ResultsWriter writer_;
  SummaryBuilder summary_;
  std::vector<UnitKey> left_out_;
};

}  // namespace

RunReport run_study(Study study, RunOptions options, const std::atomic<bool>& stop, const StudyObserver& observer) {
  check_output(study, options);
  const std::vector<DumpReader> readers = open_dumps(study);
  fit_selectors(study, readers, observer);
  leave_out_calibration_samples(study);
  const std::unique_ptr<LayerStudy> layer_study = make_study_on_device(study, options, observer);
  RunReport report{.how = RunReport::How::computed, .progress = {}, .device = layer_study->device(), .summary = {}};

  const StudyPlan plan = make_plan(readers, study);
  const std::vector<EstimateReader> estimates = open_estimates(study, plan, readers);
  const Provenance provenance = provenance_of(study, options);
  const std::string configuration = configuration_json(study, provenance);

  const std::string folder = options.output + ".partial";
  if (options.resume) {
    if (const std::optional<ResultsFile> results = finished_results(options, configuration)) {
      PartialResults::discard(folder);
      report.how = RunReport::How::found_complete;
      report.summary = summarize(*results, options.with_dense_layers);
      return report;
    }
  }
  if (options.resume && !options.force && fs::exists(options.output)) {
    if (PartialResults::exists(folder))
      throw OutputError(fmt::format("'{}' exists; --force replaces it once the study is complete", options.output));
    throw UsageError(
        fmt::format("cannot resume: '{}' is complete, and of other options or inputs than these", options.output));
  }
  if (options.force && !options.resume) PartialResults::discard(folder);
  PartialResults partial(folder, options.resume ? PartialResults::Start::resume : PartialResults::Start::fresh,
                         configuration);
  // Nothing is lost that a new run would have to refuse to overwrite.
  const auto discard_if_empty = [&] {
    if (!options.resume && report.progress.finished == 0) PartialResults::discard(folder);
  };

  try {
    calibrate(study, plan, readers[0]);
    InputGuard inputs(provenance.inputs, partial);
    StudyObserver guarded = observer;
    guarded.progress = [&](const StudyProgress& progress) {
      report.progress = progress;
      observer.progress(progress);
      inputs.poll();
    };
    for (const std::string& notice : short_context_notices(study)) observer.notice(notice);
    stream_study(
        study, plan, readers, *layer_study, partial,
        {.reading_threads = reading_threads(options.device, options.threads), .estimates = estimates, .stop = &stop},
        guarded);
    const std::optional<UnitClaim> claim = claim_finish(partial, stop);
    if (!claim) {
      const std::optional<ResultsFile> results = finished_results(options, configuration);
      if (!results)
        throw OutputError(fmt::format("'{}' was removed while the study ran, and there are no results", folder));
      report.how = RunReport::How::completed_by_another_process;
      report.summary = summarize(*results, options.with_dense_layers);
      return report;
    }
    Assembly assembly(study, plan, options, partial);
    report.summary = assembly.summary();
    assembly.finish(manifest_json(study, provenance, configuration,
                                  {.command_line = options.command_line,
                                   .device = report.device,
                                   .started = partial.begun(),
                                   .ended = utc_time(std::chrono::system_clock::now()),
                                   .input_hashes = inputs.finish(stop),
                                   .left_out = assembly.left_out()}));
    PartialResults::discard(folder);
    return report;
  } catch (const Interrupted&) {
    throw Interrupted(fmt::format("interrupted with {} of {} layers finished; the same command with --resume goes on",
                                  report.progress.finished, plan.units.size()));
  } catch (const DeviceError& error) {
    discard_if_empty();
    if (report.progress.finished == 0) throw;
    throw DeviceError(fmt::format("{}; {} of {} layers are finished, the same command with --resume goes on",
                                  error.what(), report.progress.finished, plan.units.size()));
  } catch (...) {
    discard_if_empty();
    throw;
  }
}

}  // namespace attest
