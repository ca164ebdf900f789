// Runs a study: checks inputs and output, computes the missing units, writes the results file.
#include "analysis/run/run_study.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "analysis/layer/make_layer_study.h"
#include "analysis/metrics/metric.h"
#include "analysis/results/axes.h"
#include "analysis/results/partial_results.h"
#include "analysis/results/results_file.h"
#include "analysis/run/estimate_inputs.h"
#include "analysis/run/input_guard.h"
#include "analysis/run/input_hashes.h"
#include "analysis/run/manifest.h"
#include "analysis/run/results_finish.h"
#include "analysis/study/calibration.h"
#include "analysis/study/settings_files.h"
#include "analysis/study/short_contexts.h"
#include "dumps/base/error.h"
#include "dumps/base/utc_time.h"
#include "dumps/format/dump_reader.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

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
  if (!fs::is_regular_file(output, error))
    throw OutputError(fmt::format("'{}' exists and is not a regular file", options.output));
  for (const StudyDump& dump : study.dumps)
    if (fs::equivalent(dump.path, output, error))
      throw UsageError(fmt::format("'{}' is both a dump to read and the results to write", dump.path));
  for (const std::string& file : input_files(study))
    if (fs::equivalent(file, output, error))
      throw UsageError(fmt::format("'{}' is both a file to read and the results to write", file));
  if (!options.force && !options.resume)
    throw OutputError(fmt::format("'{}' exists; --force replaces it", options.output));
}

/// The output file if it already holds the finished study. This happens if another process finished it, or if a run was
/// killed after it wrote the results and before it removed the folder of partial results. Throws InputError if the
/// output is no results file.
std::optional<ResultsFile> finished_results(const RunOptions& options, const std::string& configuration,
                                            bool skip_bad_layers) {
  if (!fs::exists(options.output)) return std::nullopt;
  ResultsFile results(options.output);
  if (!same_study(results.manifest(), configuration, skip_bad_layers)) return std::nullopt;
  return results;
}

std::vector<DumpReader> open_dumps(const Study& study, std::uint64_t allowed_memory) {
  std::vector<DumpReader> readers;
  for (const StudyDump& dump : study.dumps) readers.emplace_back(dump.path, allowed_memory);
  return readers;
}

/// Refuses layers that, with their results, take more memory than was allowed, before the first of them is studied.
void check_memory(const Study& study, const StudyPlan& plan, const std::vector<DumpReader>& readers) {
  std::uint64_t per_cell = 0, settings_of_all = 0;
  const auto add = [&](std::uint64_t settings) {
    for (const Metric& metric : all_metrics())
      per_cell += sizeof(float) * (has_settings(metric.info.axes) ? settings : 1);
  };
  for (const StudySelector& selector : study.selectors) {
    add(selector.grid.size());
    settings_of_all += selector.grid.size();
  }
  constexpr std::uint64_t kCopies = 2;  // of results: being computed, being stored
  for (const UnitKey& unit : plan.units) {
    const StudyDump& dump = study.dumps[unit.dump];
    const StudySample& sample = dump.samples[unit.sample];
    const std::uint64_t queries = sample.query_positions.size(), tokens = sample.span_tokens.size();
    const std::uint64_t cells = queries * static_cast<std::uint64_t>(dump.shape.num_query_heads);
    readers[unit.dump].check_memory(plan.places[unit.dump][unit.sample].index, unit.layer,
                                    kCopies * (per_cell * cells + sizeof(float) * settings_of_all * queries * tokens));
  }
}

/// Checks that the selectors support the dumps' head dimensions. Throws UsageError for a selector that the user named;
/// drops a default selector with a notice.
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

std::vector<InputStatus> status_of_inputs(const Study& study) {
  std::vector<InputStatus> inputs;
  for (const StudyDump& dump : study.dumps) inputs.push_back(input_status(dump.path));
  for (const std::string& file : input_files(study)) inputs.push_back(input_status(file));
  return inputs;
}

Provenance make_provenance(const RunOptions& options, std::vector<InputStatus> inputs) {
  const bool cuda = options.device.kind == DeviceKind::cuda;
  return {.program = options.program,
          .git_commit = options.git_commit,
          .device = cuda ? "cuda" : "cpu",
          .precision = cuda ? kCudaPrecision : kCpuPrecision,
          .inputs = std::move(inputs)};
}

/// Makes the layer study on the chosen device. If `auto` chose a GPU, but a selector or a metric has no CUDA code, the
/// CPU is used.
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

/// The summary of an output that holds the complete study already. Throws if --resume finds something else there.
std::optional<Summary> find_complete(const Study& study, const RunOptions& options, const std::string& configuration,
                                     const std::string& folder) {
  if (!options.resume || !fs::exists(options.output)) return std::nullopt;
  const bool unfinished = PartialResults::exists(folder);
  try {
    if (const std::optional<ResultsFile> results = finished_results(options, configuration, study.skip_bad_layers)) {
      PartialResults::remove_own_files(folder);
      return summarize(*results, options.with_dense_layers);
    }
  } catch (const InputError& error) {
    if (!options.force && !unfinished) throw InputError(fmt::format("cannot resume: {}", error.what()));
  }
  if (options.force) return std::nullopt;
  if (unfinished)
    throw OutputError(fmt::format("'{}' exists; --force replaces it once the study is complete", options.output));
  throw UsageError(
      fmt::format("cannot resume: '{}' is complete and was made with other options or inputs", options.output));
}

/// What a run has made ready when its first unit begins.
struct Prepared {
  const Study& study;
  const RunOptions& options;
  const StudyPlan& plan;
  const std::vector<DumpReader>& readers;
  const std::vector<EstimateReader>& estimates;
  const Provenance& provenance;
  const std::string& configuration;
  LayerStudy& layer_study;
  InputHashes& hashes;
};

/// Computes the units that are missing, and writes the results file unless another process does.
void compute(const Prepared& run, PartialResults& partial, const std::atomic<bool>& stop, const StudyObserver& observer,
             RunReport& report) {
  calibrate(run.study, run.plan, run.readers[0], &stop);
  InputGuard inputs(run.provenance.inputs, partial, run.hashes, stop);
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
    // What another process has read beside this one need not be read again for its hash.
    if (origin == UnitOrigin::beside)
      for (const BlockHash& block : found.input_blocks) run.hashes.set(unit.dump, block);
  };
  try {
    stream_study(run.study, run.plan, run.readers, run.layer_study, partial,
                 {.reading_threads = reading_threads(run.options.device, run.options.threads),
                  .estimates = run.estimates,
                  .hashes = &run.hashes,
                  .sink = add_to_results,
                  .stop = &stop},
                 guarded);
  } catch (const OutputError&) {
    if (!results.done_by_another()) throw;
  }

  const ResultsAssembly& assembly = results.assembly();
  if (results.wait_to_write(stop)) {
    report.summary = assembly.summary();
    results.write(manifest_json(run.study, run.provenance, run.configuration,
                                {.command_line = run.options.command_line,
                                 .device = report.device,
                                 .started = partial.start_time(),
                                 .ended = utc_time(std::chrono::system_clock::now()),
                                 .input_hashes = inputs.finish(),
                                 .left_out = assembly.left_out()}));
    PartialResults::remove_own_files(partial.folder());
    if (const std::string foreign = PartialResults::foreign_entry(partial.folder()); !foreign.empty())
      observer.notice(fmt::format("'{}' stays: '{}' in it does not belong to a study", partial.folder(), foreign));
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
  check_output(study, options);
  const std::vector<DumpReader> readers = open_dumps(study, options.allowed_memory);
  fit_selectors(study, readers, observer);
  leave_out_calibration_samples(study);
  const std::vector<InputStatus> input_list = status_of_inputs(study);
  InputHashes hashes(input_list, options.threads);
  const std::unique_ptr<LayerStudy> layer_study = make_study_on_device(study, options, observer);
  layer_study->end_when(&stop);
  RunReport report{
      .outcome = RunReport::Outcome::computed, .progress = {}, .device = layer_study->device(), .summary = {}};

  const StudyPlan plan = make_plan(readers, study);
  for (const std::string& notice : plan.notices) observer.notice(notice);
  for (const std::string& notice : settings_file_notices(study)) observer.notice(notice);
  check_memory(study, plan, readers);
  const std::vector<EstimateReader> estimates = open_estimates(study, plan, readers, options.allowed_memory);
  const Provenance provenance = make_provenance(options, input_list);
  const std::string configuration = configuration_json(study, provenance);

  const std::string folder = PartialResults::folder_of(options.output);
  if (std::optional<Summary> complete = find_complete(study, options, configuration, folder)) {
    report.outcome = RunReport::Outcome::found_complete;
    report.summary = std::move(*complete);
    return report;
  }
  if (options.force && !options.resume) PartialResults::discard(folder);
  PartialResults partial(folder, options.resume ? PartialResults::Start::resume : PartialResults::Start::fresh,
                         configuration, &study);
  if (!partial.is_shared())
    observer.notice(
        fmt::format("the file system of '{}' has no locks: no other process can take part in this study", folder));
  // After an error, a folder without finished units would only make the next run refuse to start.
  const auto discard_if_empty = [&] {
    if (!options.resume && report.progress.finished == 0) PartialResults::remove_own_files(folder);
  };
  try {
    compute({.study = study,
             .options = options,
             .plan = plan,
             .readers = readers,
             .estimates = estimates,
             .provenance = provenance,
             .configuration = configuration,
             .layer_study = *layer_study,
             .hashes = hashes},
            partial, stop, observer, report);
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
