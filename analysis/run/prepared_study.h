// All that a run has made ready before its first unit: dumps, devices, plan, configuration.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "analysis/layer/layer_study.h"
#include "analysis/run/input_hashes.h"
#include "analysis/run/manifest.h"
#include "analysis/run/run_study.h"
#include "analysis/run/unit_queue.h"
#include "analysis/run/unit_store.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/estimate_reader.h"

namespace attest {

struct PreparedStudy {
  Study study;
  RunOptions options;
  const std::atomic<bool>* stop = nullptr;
  std::vector<DumpReader> readers;  ///< of the dumps
  std::vector<InputStatus> inputs;
  std::unique_ptr<InputHashes> hashes;
  StudyPlan plan;
  std::vector<EstimateReader> estimates;
  Provenance provenance;
  std::string configuration;         ///< configuration_json()
  std::vector<std::string> notices;  ///< about the study: the same in each process that shares it

  /// Starts the devices on another thread, while a folder and a results file are made; what goes wrong is thrown by
  /// compute() and device_text(), which also start what was not. GPUs start one after the other, so that the first
  /// computes while others start: two that start at once take as long as two in turn, 0.23 s for two H200.
  void start_devices();
  /// The devices in words.
  const std::string& device_text();

  /// Computes the units of a queue, which are those of `part`, on the devices (stream_study.h). A device that has
  /// nothing left to compute is given back on another thread: that takes as long as to store the last results and to
  /// write the file. The next compute() starts the devices again.
  void compute(UnitQueue& queue, const StudyPlan& part, const UnitSink& sink, const StudyObserver& observer);
  /// What another process has read beside this one need not be read again for its hash. Throws InputError if a unit
  /// was computed from another input.
  void take_hashes(const UnitKey& unit, const LayerResults& found, UnitOrigin origin) const;

 private:
  void give_back(LayerStudy& computed);

  /// Of a device that is starting: `there` is set once the layer study is.
  struct Start {
    std::unique_ptr<LayerStudy> study;
    std::promise<void> there;
    std::shared_future<void> waiting = there.get_future();
  };
  std::vector<Start> starts_;
  std::vector<LayerStudy*> devices_;  ///< null until they have started
  std::string device_text_;
  std::shared_future<void> starting_;  ///< all of them
  std::mutex ending_mutex_;
  std::vector<std::jthread> ending_;  ///< each gives a device back
};

/// Opens and checks the inputs, begins to hash them, and chooses the device. Its layer studies end when `stop` is set.
/// Throws InputError, UsageError.
std::unique_ptr<PreparedStudy> prepare_study(Study study, RunOptions options, const std::atomic<bool>& stop,
                                             const StudyObserver& observer);

}  // namespace attest
