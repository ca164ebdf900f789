// The same study in eager LibTorch: what a researcher would write, as the peer of benchmarks. Not a reference of any
// test.
#pragma once

#include <string>
#include <vector>

#include "analysis/layer/layer_study.h"
#include "analysis/results/study_results.h"
#include "dumps/attention_layer.h"

namespace attest {

/// A selector at its defaults (no dense layers) on a grid. Known: exact, ffd, quest, kivi, twilight, streaming_llm.
struct TorchPeerSelector {
  std::string name;
  std::vector<Setting> grid;
};

struct TorchPeerOptions {
  std::vector<TorchPeerSelector> selectors;
  std::string device = "cpu";  ///< "cpu", "cuda:0"
  int threads = 1;
  double salient_delta = 5;
  std::vector<double> lambdas;
};

/// Metrics of one layer in float32, setting by setting, with the time that it took (device synchronised; the copy of
/// the layer to the device included). Opens LibTorch on first use. Throws Error where it cannot.
struct TorchPeerResult {
  LayerResults results;
  double seconds = 0;
};
TorchPeerResult run_torch_peer(const AttentionLayer& layer, const TorchPeerOptions& options);

}  // namespace attest
