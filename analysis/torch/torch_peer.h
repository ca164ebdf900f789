// The same study in eager LibTorch, written as a researcher would write it. Benchmarks compare their speed with it; no
// test uses it as a reference.
#pragma once

#include <string>

#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"
#include "dumps/attention_layer.h"

namespace attest {

/// Metrics of one layer in float32 and the time taken, measured with the device synchronised and including the copy of
/// the layer to the device.
struct TorchPeerResult {
  LayerResults results;
  double seconds = 0;
};

/// Supports the selectors exact, ffd, quest, kivi, twilight and streaming_llm with default options; dense layers are
/// ignored. `device`: "cpu" or "cuda:0". Loads LibTorch on first use; throws Error if that fails or LibTorch throws.
/// Throws UsageError for a layer with what it does not have: a sliding window, a soft-cap, values in the keys.
TorchPeerResult run_torch_peer(const AttentionLayer& layer, const Study& study, const std::string& device, int threads);

}  // namespace attest
