// The study of one layer: every selector, setting and metric, as a pure function of the layer's data.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
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
#include "dumps/layer_store.h"
#include "kernels/device/stage_time.h"

namespace attest {

/// Runs on one device. The results do not depend on the number of threads. Not thread-safe.
class LayerStudy {
 public:
  virtual ~LayerStudy() = default;

  /// Studies a layer, whose values must be finite. The caller fills in `sample` and `dump` of the result. If a score,
  /// an estimate or an output overflows, `defect` of the result says where, and its metrics are undefined. Throws
  /// UsageError if a selector does not support the layer's shape.
  virtual LayerResults run(const AttentionLayer& layer) = 0;

  /// run() in two halves, so that a device works on one layer while the next is read. submit() starts a layer;
  /// collect() waits for the oldest submitted layer and returns its results. A layer must stay unchanged until its
  /// results are collected. At most max_submitted() layers may be submitted and not collected. If submit() or
  /// collect() throws, all submitted layers are dropped.
  virtual void submit(const AttentionLayer& layer) { finished_.push_back(run(layer)); }
  virtual LayerResults collect() {
    LayerResults first = std::move(finished_.front());
    finished_.pop_front();
    return first;
  }
  virtual int max_submitted() const { return 1; }
  /// Those and what is best read meanwhile.
  virtual int layers_at_once() const { return max_submitted() + 1; }
  /// Memory for the buffers of layers that is fastest to copy to the device.
  virtual std::pmr::memory_resource* layer_memory() { return std::pmr::get_default_resource(); }

  /// Where layers are better kept than in host memory; null: nowhere. submit() takes a layer whose store is such a one
  /// while its keys and values still arrive there, and returns when they have. If they end before (KvArrival::end()),
  /// the results of the layer mean nothing. A layer with a store may have a source instead, if the store had no room.
  virtual std::shared_ptr<LayerStore> make_layer_store() { return nullptr; }

  /// Makes the device ready for layers like this one. Nothing may have been submitted. Calls `begin_arrival` once,
  /// which has other threads begin to put keys and values into its store: those are read meanwhile, but not copied to
  /// the device, which would load what it needs more slowly beside them.
  virtual void rehearse(const AttentionLayer& /*layer*/, const std::function<void()>& begin_arrival) {
    begin_arrival();
  }

  /// Once the flag is set, run(), submit() and collect() end soon, within a layer, with Interrupted. Layers that are
  /// submitted are dropped. Null: they never do.
  void end_when(const std::atomic<bool>* stop) { stop_ = stop; }

  /// Gives the device back to the system, as the end of the process would. Nothing else in this process may use the
  /// device, and the layer stores that this object has made must be gone. True: the buffers of this object went with
  /// the device, and its destructor must not be called.
  virtual bool end_device() { return false; }

  /// Digits that no other GPU has, on any machine; empty for a device that processes may use at the same time.
  virtual std::string identity() const { return ""; }

  /// The device in words: "CPU, 2 threads".
  virtual std::string device() const = 0;
  /// Times of all layers collected so far; empty if the device does not measure them.
  virtual std::vector<StageTime> stage_times() const { return {}; }

 protected:
  /// Called between parts of a layer, by any thread.
  void throw_if_stopped() const {
    if (stop_ != nullptr && *stop_) throw Interrupted("interrupted");
  }

  const std::atomic<bool>* stop_flag() const { return stop_; }

 private:
  const std::atomic<bool>* stop_ = nullptr;
  std::deque<LayerResults> finished_;
};

/// Thrown for a selector or a metric that has no CUDA code.
struct NoCudaCode : UsageError {
  using UsageError::UsageError;
};
/// Throws it.
void require_cuda_code(const Study& study, std::span<const Metric> metrics = all_metrics());

/// `study` must outlive the result.
std::unique_ptr<LayerStudy> make_cpu_layer_study(const Study& study, int threads,
                                                 std::span<const Metric> metrics = all_metrics());

/// Runs on GPU `device` of visible_gpus(), which must be usable, with `threads` of the host; `study` must outlive the
/// result. `metrics` has all of all_metrics() and may have more: a kernel writes all metrics that it computes. Throws
/// as require_cuda_code() does, and UsageError if the device has less memory than `memory` asks for. This function,
/// run(), submit() and collect() throw DeviceError if the device fails or the memory does not suffice.
std::unique_ptr<LayerStudy> make_cuda_layer_study(const Study& study, int device, const DeviceMemoryLimit& memory = {},
                                                  std::span<const Metric> metrics = all_metrics(), int threads = 1);

}  // namespace attest
