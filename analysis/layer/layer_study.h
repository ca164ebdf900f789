// The study of one layer: every selector, setting and metric, as a pure function of the layer's data.
#pragma once

#include <deque>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/layer/device.h"
#include "analysis/metrics/metric.h"
#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"
#include "dumps/attention_layer.h"
#include "dumps/base/error.h"
#include "kernels/device/stage_time.h"

namespace attest {

/// Runs on one device; the results do not depend on the number of threads. Not to be called from two threads at once.
class LayerStudy {
 public:
  virtual ~LayerStudy() = default;

  /// sample and dump of the result are left to the caller. Throws UsageError where the shape does not suit a selector.
  /// The values must be finite.
  virtual LayerResults run(const AttentionLayer& layer) = 0;

  /// run() in two halves, so that a device works on one layer while the next is read: submit() begins a layer,
  /// collect() waits for the one begun first and gives its results. A layer stays unchanged until its results are
  /// collected; at most most_submitted() may wait. When either throws, nothing is under way any more.
  virtual void submit(const AttentionLayer& layer) { finished_.push_back(run(layer)); }
  virtual LayerResults collect() {
    LayerResults first = std::move(finished_.front());
    finished_.pop_front();
    return first;
  }
  virtual int most_submitted() const { return 1; }
  /// Memory from which the buffers of layers reach the device fastest.
  virtual std::pmr::memory_resource* layer_memory() { return std::pmr::get_default_resource(); }

  /// Where it runs, in words: "CPU, 2 threads".
  virtual std::string device() const = 0;
  /// Of all layers collected so far; empty where nobody measures.
  virtual std::vector<StageTime> stage_times() const { return {}; }

 private:
  std::deque<LayerResults> finished_;
};

/// A selector or a metric that runs on the CPU alone.
struct NoCudaCode : UsageError {
  using UsageError::UsageError;
};

/// The study outlives what is made here.
std::unique_ptr<LayerStudy> make_cpu_layer_study(const Study& study, int threads,
                                                 std::span<const Metric> metrics = all_metrics());

/// On visible_gpus()[device], which must be usable. Throws NoCudaCode where a selector or a metric has none, UsageError
/// where the device has not as much memory; DeviceError (from run, submit and collect too) where the device fails or
/// the memory does not suffice.
std::unique_ptr<LayerStudy> make_cuda_layer_study(const Study& study, int device, const DeviceMemoryLimit& memory = {},
                                                  std::span<const Metric> metrics = all_metrics());

}  // namespace attest
