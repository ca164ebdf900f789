// For each layer study a pipeline of threads: one reads layers, one studies them, others store their results.
#include "analysis/run/stream_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analysis/run/layer_handover.h"
#include "analysis/run/unit_runner.h"
#include "analysis/run/unit_store.h"
#include "dumps/base/cgroup.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

/// Number of layers of one pipeline in memory at a time: those that the LayerStudy asks for. Fewer, but at least two,
/// if those of all pipelines would take more than a quarter of the memory that this process may use.
int layers_at_once(const StudyPlan& plan, std::span<const DumpReader> dumps, const LayerStudy& study,
                   std::size_t pipelines) {
  std::size_t largest = 1;
  for (const UnitKey& unit : plan.units) {
    const std::int64_t bytes =
        dumps[unit.dump].layer_info(plan.places[unit.dump][unit.sample].index, unit.layer).bytes();
    largest = std::max(largest, static_cast<std::size_t>(bytes));
  }
  const auto wanted = static_cast<std::size_t>(study.layers_at_once());
  return std::max(2, static_cast<int>(std::min<std::size_t>(available_memory() / 4 / pipelines / largest, wanted)));
}

/// The first error of several pipelines.
class FirstError {
 public:
  /// The error that is being handled. `who`: the device of the pipeline, where there are several.
  void set_current(const std::string& who) {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = std::current_exception();
    ended_ = true;
    if (who.empty()) return;
    try {
      throw;
    } catch (const DeviceError& error) {
      error_ = std::make_exception_ptr(DeviceError(fmt::format("{}: {}", who, error.what())));
    } catch (...) {  // not about the device
    }
  }
  const std::atomic<bool>& ended() const { return ended_; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  std::atomic<bool> ended_ = false;
};

}  // namespace

void stream_study(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps,
                  std::span<LayerStudy* const> layer_studies, UnitQueue& queue, const StreamOptions& options,
                  const StudyObserver& observer) {
  const bool several = layer_studies.size() > 1;
  std::atomic<std::size_t> starting = layer_studies.size();
  StudyTally tally(observer, plan.units.size());
  FirstError error;
  const auto run_pipeline = [&](std::size_t place) {
    std::string who;
    try {
      if (options.await_device) options.await_device(place);
      LayerStudy& layer_study = *layer_studies[place];
      if (several) who = layer_study.device();
      if (--starting == 0) observer.started(devices_text(layer_studies));
      const int layers = layers_at_once(plan, dumps, layer_study, layer_studies.size());
      std::optional<LayerHandover> handover(std::in_place, layers, [&] {
        auto layer = std::make_unique<AttentionLayer>(layer_study.layer_memory());
        layer->store = layer_study.make_layer_store();
        return layer;
      });
      UnitStore store(queue, options.sink, options.storing_threads);
      const auto submitted = static_cast<std::size_t>(std::min(layer_study.max_submitted(), layers - 1));
      UnitRunner runner(study, layer_study, submitted, *handover, store, tally);
      {
        DeviceLock device = queue.device_lock(layer_study.identity(), layer_study.device());
        LayerReader reader(study, layer_study, plan, dumps, options, queue, device, *handover);
        const std::jthread reading([&](const std::stop_token& stop) { reader.run(stop); });
        runner.run(options.stop, error.ended());
      }
      handover.reset();
      if (options.computed) options.computed(layer_study);
      runner.store_all();
    } catch (...) {
      error.set_current(who);
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t place = 1; place < layer_studies.size(); ++place)
        others.emplace_back([&, place] { run_pipeline(place); });
      run_pipeline(0);
    } catch (...) {  // no further thread can be started
      error.set_current("");
    }
  }
  error.rethrow();
}

std::string devices_text(std::span<LayerStudy* const> layer_studies) {
  std::string text;
  for (const LayerStudy* const layer_study : layer_studies) text += (text.empty() ? "" : ", ") + layer_study->device();
  return text;
}

}  // namespace attest
