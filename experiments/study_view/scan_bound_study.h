// FFD's bounds (experiments/study_view/scan_bound.h), computed from the dumps of a study, beside its measured tails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/study_view/model_study.h"

namespace attest {

/// Sums over rows (query, query head) at one lambda.
struct BoundSums {
  double tail = 0, bound_block = 0, bound_paper = 0;
  double lower_tail = 0, lower_bound_block = 0, lower_bound_paper = 0;
  double above_block = 0, above_paper = 0;  ///< rows whose measured tail exceeds the bound
  double salient = 0, missed = 0, dropped = 0, missed_bound_block = 0, missed_bound_paper = 0;  ///< tokens
};

/// The rows of a layer, of a sample, or of all, that have a full block.
struct LayerBounds {
  std::int64_t rows = 0;
  double delta = 0, alpha = 0, sigma_block = 0, sigma_paper = 0;  ///< sums; delta in nats
  double alpha_min = std::numeric_limits<double>::infinity(), alpha_max = 0;
  std::vector<BoundSums> at;  ///< [lambdas]
};

struct ScanBoundStudy {
  std::string problem = {};  ///< why the dumps cannot be used; empty if they can
  std::vector<double> lambdas = {};
  std::map<int, LayerBounds> layers = {};
  std::vector<LayerBounds> samples = {};  ///< those that have such rows
  LayerBounds pooled = {};
  bool hashed = true;  ///< every dump has the hash of the manifest; else some agree in size and were not modified since
};

/// Computes each ScanBoundStudy once, since the dumps are read for it. Not thread-safe; results files must outlive it.
class ScanBounds {
 public:
  explicit ScanBounds(int threads = 1) : threads_(threads) {}

  /// Reads the study's queries of each layer that `ffd` was computed for. `ffd` scans thumbnails under rule = topdelta;
  /// false negatives are those of its setting number `setting`.
  const ScanBoundStudy& of(const ModelStudy& study, const PooledSelector& ffd, std::size_t setting);

 private:
  struct Made {
    std::vector<PlacedSample> samples;
    std::string label;
    std::size_t setting = 0;
    std::unique_ptr<ScanBoundStudy> bounds;
  };
  int threads_;
  std::vector<Made> made_;
};

}  // namespace attest
