// Opens the inputs of a study, plans its units and starts its devices.
#include "analysis/run/prepared_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <future>
#include <iterator>
#include <system_error>
#include <tuple>
#include <utility>

#include "analysis/layer/make_layer_study.h"
#include "analysis/results/unit_check.h"
#include "analysis/run/estimate_inputs.h"
#include "analysis/run/stream_study.h"
#include "analysis/study/absent_layers.h"
#include "analysis/study/calibration.h"
#include "analysis/study/mixed_models.h"
#include "analysis/study/settings_files.h"
#include "analysis/study/weights_check.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

constexpr const char* kCudaPrecision =
    "float32 sums of products of exact 16-bit parts; quantisers in float32; kept sets decided in float32";
constexpr const char* kCpuPrecision =
    "quantisers float32; scores, thresholds, softmax, sums and metrics float64; stored float32";

/// Calls `meanwhile` while the last of them is opened: what it does must not be under way when a process is forked.
std::vector<DumpReader> open_dumps(const Study& study, std::uint64_t allowed_memory,
                                   const std::function<void()>& meanwhile) {
  std::vector<DumpReader> readers;
  for (std::size_t i = 0; i < study.dumps.size(); ++i)
    readers.emplace_back(study.dumps[i].path, allowed_memory,
                         i + 1 == study.dumps.size() ? meanwhile : std::function<void()>());
  return readers;
}

StudyPlan make_plan(const std::vector<DumpReader>& readers, Study& study) {
  std::vector<const DumpInfo*> infos;
  for (const DumpReader& reader : readers) infos.push_back(&reader.info());
  return plan_study(infos, study);
}

std::vector<InputStatus> status_of_inputs(const Study& study, const RunOptions& options) {
  std::vector<InputStatus> inputs;
  for (const StudyDump& dump : study.dumps) inputs.push_back(input_status(dump.path));
  for (const std::string& file : input_files(study)) inputs.push_back(input_status(file));
  if (options.weights) inputs.push_back(input_status(options.weights->path));
  return inputs;
}

Provenance make_provenance(const RunOptions& options, std::vector<InputStatus> inputs) {
  const bool cuda = options.device.kind == DeviceKind::cuda;
  std::vector<std::string> sampled;
  for (const InputStatus& input : inputs) sampled.push_back(sampled_hash(input.path));
  return {.program = options.program,
          .git_commit = options.git_commit,
          .device = cuda ? "cuda" : "cpu",
          .precision = cuda ? kCudaPrecision : kCpuPrecision,
          .inputs = std::move(inputs),
          .sampled = std::move(sampled),
          .head_weights = options.weights ? options.weights->path : ""};
}

/// If `auto` chose a GPU, but a selector or a metric has no CUDA code, the CPU is used.
void fit_device(const Study& study, RunOptions& options, const StudyObserver& observer) {
  if (options.device.kind == DeviceKind::cpu) return;
  try {
    require_cuda_code(study);
  } catch (const NoCudaCode& error) {
    if (!options.device.automatic) throw;
    observer.notice(fmt::format("{}; the CPU is used", error.what()));
    options.device = {};
  }
}

/// Refuses layers that, with their results, take more memory than was allowed, before the first of them is studied.
void check_memory(const Study& study, const StudyPlan& plan, const std::vector<DumpReader>& readers) {
  constexpr std::uint64_t kCopies = 2;  // of results: being computed, being stored
  std::uint64_t bytes = 0;
  const UnitKey* sample = nullptr;  // whose layers have as many values each
  for (const UnitKey& unit : plan.units) {
    if (sample == nullptr || sample->dump != unit.dump || sample->sample != unit.sample)
      bytes = kCopies * max_value_bytes(unit, study);
    sample = &unit;
    readers[unit.dump].check_memory(plan.places[unit.dump][unit.sample].index, unit.layer, bytes);
  }
}

/// Checks that the selectors support the dumps' head dimensions. Throws UsageError for a selector that the user named;
/// drops a default selector with a notice.
void fit_selectors(Study& study, const std::vector<DumpReader>& readers, std::vector<std::string>& notices) {
  std::erase_if(study.selectors, [&](const StudySelector& chosen) {
    try {
      for (const DumpReader& reader : readers) chosen.selector->check(reader.info().shape.kv());
      return false;
    } catch (const UsageError& error) {
      if (!chosen.by_default) throw;
      notices.push_back(fmt::format("'{}' is left out: {}", chosen.label, error.what()));
      return true;
    }
  });
}

}  // namespace

void PreparedStudy::start_devices() {
  starts_ = std::vector<Start>(options.device.count());
  devices_.assign(starts_.size(), nullptr);
  starting_ = std::async(std::launch::async, [this] {
    std::size_t i = 0;
    try {
      for (; i < starts_.size(); ++i) {
        starts_[i].study = make_layer_study(study, options.device, options.threads, i);
        starts_[i].study->end_when(stop);
        devices_[i] = starts_[i].study.get();
        if (i + 1 == starts_.size()) device_text_ = devices_text(devices_);
        starts_[i].there.set_value();
      }
    } catch (...) {
      for (; i < starts_.size(); ++i) starts_[i].there.set_exception(std::current_exception());
    }
  });
}

const std::string& PreparedStudy::device_text() {
  if (starts_.empty() && device_text_.empty()) start_devices();
  for (const Start& start : starts_) start.waiting.get();
  return device_text_;
}

void PreparedStudy::give_back(LayerStudy& computed) {
  starting_.wait();
  const std::lock_guard lock(ending_mutex_);
  const auto place = std::ranges::find(devices_, &computed) - devices_.begin();
  LayerStudy* const ended = starts_[static_cast<std::size_t>(place)].study.release();
  try {
    ending_.emplace_back([ended] {
      std::unique_ptr<LayerStudy> study(ended);
      if (study->end_device()) std::ignore = study.release();
    });
  } catch (const std::system_error&) {  // no further thread can be started: the end of the process gives it back
  }
}

void PreparedStudy::compute(UnitQueue& queue, const StudyPlan& part, const UnitSink& sink,
                            const StudyObserver& observer) {
  if (starts_.empty()) start_devices();
  stream_study(study, part, readers, devices_, queue,
               {.reading_threads = reading_threads(options.device, options.threads),
                .storing_threads = storing_threads(options.device, options.threads),
                .estimates = estimates,
                .weights = options.weights ? &*options.weights : nullptr,
                .hash_blocks = true,
                .hashes = hashes.get(),
                .sink = sink,
                .stop = stop,
                .await_device = [this](std::size_t place) { starts_[place].waiting.get(); },
                .computed = [this](LayerStudy& computed) { give_back(computed); }},
               observer);
  starts_.clear();  // the devices were given back
}

void PreparedStudy::take_hashes(const UnitKey& unit, const LayerResults& found, UnitOrigin origin) const {
  if (origin == UnitOrigin::this_process) return;
  const bool trusted = origin == UnitOrigin::beside;
  for (const BlockHash& block : found.input_blocks) hashes->take(unit.dump, block, found.computed_by, trusted);
}

std::unique_ptr<PreparedStudy> prepare_study(Study study, RunOptions options, const std::atomic<bool>& stop,
                                             const StudyObserver& observer) {
  auto run = std::make_unique<PreparedStudy>();  // layer studies and estimates refer to its members
  run->study = std::move(study);
  run->options = std::move(options);
  run->stop = &stop;
  // To ask for GPUs takes CUDA 0.1 s: meanwhile the study is planned.
  std::future<Device> device;
  run->readers = open_dumps(run->study, run->options.allowed_memory, [&] {
    if (run->options.choose_device)
      device = std::async(std::launch::async | std::launch::deferred, run->options.choose_device);
  });
  run->notices = run->options.notices;
  fit_selectors(run->study, run->readers, run->notices);
  leave_out_calibration_samples(run->study);
  run->inputs = status_of_inputs(run->study, run->options);
  run->hashes = std::make_unique<InputHashes>(run->inputs, run->options.threads);
  run->plan = make_plan(run->readers, run->study);
  std::ranges::copy(run->plan.notices, std::back_inserter(run->notices));
  std::ranges::copy(mixed_model_notices(run->study.dumps), std::back_inserter(run->notices));
  std::ranges::copy(absent_layer_notices(run->study), std::back_inserter(run->notices));
  std::ranges::copy(settings_file_notices(run->study), std::back_inserter(run->notices));
  const HeadWeights* weights = run->options.weights ? &*run->options.weights : nullptr;
  std::ranges::copy(head_weights_notices(run->study, run->plan, run->readers, weights),
                    std::back_inserter(run->notices));
  check_memory(run->study, run->plan, run->readers);
  for (const UnitKey& unit : run->plan.units)
    for (const StudySelector& chosen : run->study.selectors)
      chosen.selector->check_layer(unit.layer, run->study.dumps[unit.dump].shape.num_kv_heads);
  if (device.valid()) run->options.device = device.get();  // before processes are forked that read estimates
  fit_device(run->study, run->options, observer);
  run->estimates = open_estimates(run->study, run->plan, run->readers, run->options.allowed_memory);
  run->provenance = make_provenance(run->options, run->inputs);
  run->configuration = configuration_json(run->study, run->provenance);
  return run;
}

}  // namespace attest
