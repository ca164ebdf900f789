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
#include "analysis/results/study_results.h"
#include "dumps/attention_layer.h"
#include "dumps/base/error.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// A selector with the grid on which it is evaluated.
struct StudySelector {
  std::string label;
  std::shared_ptr<const Selector> selector;
  std::vector<Setting> grid;  ///< in the order given; one Setting{} for SettingKind::none
};

struct StudyOptions {
  std::vector<StudySelector> selectors;
  double salient_delta = 5;  ///< natural-log units below the row's maximum: which tokens are salient
  std::vector<double> lambdas{0.25, 0.5, 1, 1.5, 2, 3, 4, 6};  ///< for the tails of the scan error
};

/// Time that the device spent on a stage of its work.
struct StageTime {
  std::string name;
  double seconds = 0;
  double bytes = 0;  ///< that the stage has to move at least: what it needs read once, what it makes written once
};

/// The stage that brings layers from the host's memory: bound by the bus, not by the device's memory.
inline constexpr std::string_view kHostCopyStage = "copy from host";

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

/// A selector that runs on the CPU alone.
struct NoCudaCode : UsageError {
  using UsageError::UsageError;
};

std::unique_ptr<LayerStudy> make_cpu_layer_study(StudyOptions options, int threads);

/// On visible_gpus()[device], which must be usable. Throws NoCudaCode where a selector has none, UsageError where the
/// device has not as much memory; DeviceError (from run, submit and collect too) where the device fails or the memory
/// does not suffice.
std::unique_ptr<LayerStudy> make_cuda_layer_study(StudyOptions options, int device,
                                                  const DeviceMemoryLimit& memory = {});

}  // namespace attest
