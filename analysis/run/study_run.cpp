#include "analysis/run/study_run.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "analysis/layer/make_layer_study.h"
#include "analysis/results/partial_results.h"
#include "analysis/results/results_file.h"
#include "analysis/run/input_guard.h"
#include "analysis/run/manifest.h"
#include "analysis/study/calibration.h"
#include "analysis/study/short_contexts.h"
#include "dumps/base/error.h"
#include "dumps/base/utc_time.h"
#include "dumps/dump_reader.h"
#include "experiments/version.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr auto kPollInterval = std::chrono::milliseconds(100);
constexpr const char* kCudaPrecision =
    "float32 sums of products of exact 16-bit parts; quantisers in float32; kept sets decided in float32";
constexpr const char* kCpuPrecision =
    "quantisers float32; scores, thresholds, softmax, sums and metrics float64; stored float32";

std::string partial_folder(const StudyRequest& request) { return request.output + ".partial"; }

void check_output(const StudyRequest& request) {
  std::error_code error;
  const fs::path output = request.output;
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error))
    throw OutputError(fmt::format("cannot write '{}': there is no folder '{}'", request.output, folder.string()));
  if (!fs::exists(output, error)) return;
  if (!fs::is_regular_file(output, error)) throw OutputError(fmt::format("'{}' exists and is no file", request.output));
  for (const std::string& dump : request.dumps)
    if (fs::equivalent(dump, output, error))
      throw UsageError(fmt::format("'{}' is both a dump to read and the results to write", dump));
  if (!request.force && !request.resume)
    throw OutputError(fmt::format("'{}' exists; --force replaces it", request.output));
}

/// Whether the output is the finished study already: then a run that was killed between its last two steps has nothing
/// left.
bool is_complete(const StudyRequest& request, const std::string& configuration) {
  try {
    return fs::exists(request.output) && same_study(ResultsFile(request.output).study().manifest_json, configuration);
  } catch (const InputError&) {
    return false;
  }
}

std::vector<DumpReader> open_dumps(const StudyRequest& request) {
  std::vector<DumpReader> readers;
  for (const std::string& path : request.dumps) readers.emplace_back(path);
  return readers;
}

/// Throws UsageError where the dumps' head dimensions do not suit a selector that was asked for; others are left out.
void fit_selectors(StudyRequest& request, const std::vector<DumpReader>& readers, const StudyObserver& observer) {
  std::erase_if(request.selectors, [&](const RequestedSelector& selector) {
    try {
      for (const DumpReader& reader : readers)
        selector.study.selector->check(reader.info().shape.head_dim, reader.info().shape.value_dim);
      return false;
    } catch (const UsageError& error) {
      if (!selector.by_default) throw;
      observer.notice(fmt::format("'{}' is left out: {}", selector.study.label, error.what()));
      return true;
    }
  });
}

StudyPlan make_plan(const std::vector<DumpReader>& readers, const StudyChoice& choice) {
  std::vector<const DumpInfo*> infos;
  for (const DumpReader& reader : readers) infos.push_back(&reader.info());
  return plan_study(infos, choice);
}

std::vector<Learner> learners_of(const StudyRequest& request) {
  std::vector<Learner> learners;
  for (const RequestedSelector& selector : request.selectors)
    if (selector.learner) learners.push_back({selector.study.label, selector.learner});
  return learners;
}

StudyConfiguration configure(const StudyRequest& request) {
  const bool cuda = request.device.kind == DeviceKind::cuda;
  StudyConfiguration configuration{.program = program_version().program,
                                   .git_commit = program_version().git_commit,
                                   .device = cuda ? "cuda" : "cpu",
                                   .precision = cuda ? kCudaPrecision : kCpuPrecision,
                                   .selectors = {},
                                   .salient_delta = request.salient_delta,
                                   .lambdas = request.lambdas,
                                   .skip_bad_layers = request.skip_bad_layers,
                                   .inputs = {}};
  for (const RequestedSelector& selector : request.selectors) configuration.selectors.push_back(selector.description);
  for (const std::string& path : request.dumps) configuration.inputs.push_back(input_status(path));
  return configuration;
}

/// On the requested device; where `auto` took a GPU that a selector has no code for, on the CPU.
std::unique_ptr<LayerStudy> make_layer_study(StudyRequest& request, const StudyObserver& observer) {
  StudyOptions options{.selectors = {}, .salient_delta = request.salient_delta, .lambdas = request.lambdas};
  for (const RequestedSelector& selector : request.selectors) options.selectors.push_back(selector.study);
  try {
    return make_layer_study(options, request.device, request.threads);
  } catch (const NoCudaCode& error) {
    if (!request.device.automatic) throw;
    observer.notice(fmt::format("{}; the CPU is used", error.what()));
    request.device = {};
    return make_layer_study(std::move(options), request.device, request.threads);
  }
}

/// What a reader would take for fidelity and is only a short context.
void say_short_contexts(const StudyRequest& request, const StudyPlan& plan, const StudyObserver& observer) {
  std::vector<StudySelector> selectors;
  std::vector<std::vector<std::string>> labels;
  for (const RequestedSelector& selector : request.selectors) {
    selectors.push_back(selector.study);
    labels.push_back(selector.description.setting_labels);
  }
  for (const std::string& notice : short_context_notices(plan, selectors, labels)) observer.notice(notice);
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

/// Gathers the finished units into the results file.
class Assembly {
 public:
  Assembly(const StudyRequest& request, const StudyPlan& plan, const StudyConfiguration& configuration,
           const PartialResults& partial)
      : description_{.manifest_json = {},
                     .dumps = plan.dumps,
                     .selectors = configuration.selectors,
                     .lambdas = configuration.lambdas},
        writer_(request.output, description_, partial.folder()) {
    for (const UnitKey& unit : plan.units) {
      const std::optional<LayerResults> results = partial.load(unit);
      if (!results)
        throw OutputError(fmt::format("'{}': a finished layer has become unreadable; --resume computes it again",
                                      partial_folder(request)));
      writer_.add(*results);
      if (!results->done) left_out_.push_back({results->dump, results->sample, results->layer});
    }
  }

  const std::vector<LeftOutLayer>& left_out() const { return left_out_; }
  void finish(const std::string& manifest) { writer_.finish(manifest); }

 private:
  StudyDescription description_;
  ResultsWriter writer_;
  std::vector<LeftOutLayer> left_out_;
};

}  // namespace

StudyReport run_study_request(StudyRequest request, const std::atomic<bool>& stop, const StudyObserver& observer) {
  check_output(request);
  const std::vector<DumpReader> readers = open_dumps(request);
  fit_selectors(request, readers, observer);
  const std::unique_ptr<LayerStudy> layer_study = make_layer_study(request, observer);
  StudyReport report{.how = StudyReport::How::computed, .progress = {}, .device = layer_study->device()};

  const std::vector<Learner> learners = learners_of(request);
  const StudyPlan plan = make_plan(readers, without_calibration_samples(request.choice, learners, readers.size()));
  const StudyConfiguration configuration = configure(request);
  const std::string study = configuration_json(configuration, plan);

  const std::string folder = partial_folder(request);
  if (request.resume && is_complete(request, study)) {
    PartialResults::discard(folder);
    report.how = StudyReport::How::found_complete;
    return report;
  }
  if (request.resume && !request.force && fs::exists(request.output)) {
    if (PartialResults::exists(folder))
      throw OutputError(fmt::format("'{}' exists; --force replaces it once the study is complete", request.output));
    throw UsageError(
        fmt::format("cannot resume: '{}' is complete, and of other options or inputs than these", request.output));
  }
  if (request.force && !request.resume) PartialResults::discard(folder);
  PartialResults partial(folder, request.resume ? PartialResults::Start::resume : PartialResults::Start::fresh, study);
  // Nothing is lost that a new run would have to refuse to overwrite.
  const auto discard_if_empty = [&] {
    if (!request.resume && report.progress.finished == 0) PartialResults::discard(folder);
  };

  try {
    if (!learners.empty()) calibrate(learners, readers[0], plan);
    InputGuard inputs(configuration.inputs, partial);
    StudyObserver guarded = observer;
    guarded.progress = [&](const StudyProgress& progress) {
      report.progress = progress;
      observer.progress(progress);
      inputs.poll();
    };
    say_short_contexts(request, plan, observer);
    run_study(plan, readers, *layer_study, partial,
              {.skip_bad_layers = request.skip_bad_layers,
               .reading_threads = reading_threads(request.device, request.threads),
               .stop = &stop},
              guarded);
    const std::optional<UnitClaim> claim = claim_finish(partial, stop);
    if (!claim) {
      if (!is_complete(request, study))
        throw OutputError(fmt::format("'{}' was removed while the study ran, and there are no results", folder));
      report.how = StudyReport::How::completed_by_another_process;
      return report;
    }
    Assembly assembly(request, plan, configuration, partial);
    const Manifest manifest{.command_line = request.command_line,
                            .configuration = study,
                            .device = report.device,
                            .started = partial.begun(),
                            .ended = utc_time(std::chrono::system_clock::now()),
                            .input_hashes = inputs.finish(stop),
                            .left_out = assembly.left_out()};
    assembly.finish(manifest_json(manifest, configuration));
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
