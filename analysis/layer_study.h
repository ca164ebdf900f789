// The study of one layer: every selector, setting and metric, as a pure function of the layer's data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"
#include "dumps/study_results.h"
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

/// Runs on one device; the results do not depend on the number of threads. Not to be called from two threads at once.
class LayerStudy {
 public:
  virtual ~LayerStudy() = default;

  /// sample and dump of the result are left to the caller. Throws UsageError where the shape does not suit a selector.
  /// The values must be finite (dumps/all_finite.h).
  virtual LayerResults run(const AttentionLayer& layer) = 0;

  /// Where it runs, in words: "CPU, 2 threads".
  virtual std::string device() const = 0;
};

std::unique_ptr<LayerStudy> make_cpu_layer_study(StudyOptions options, int threads);

}  // namespace attest
