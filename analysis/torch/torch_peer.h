// The same study in eager LibTorch: what a researcher would write, as the peer of benchmarks. Not a reference of any
// test.
#pragma once

#include <string>

#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"
#include "dumps/attention_layer.h"

namespace attest {

/// Metrics of one layer in float32, setting by setting, with the time that it took (device synchronised; the copy of
/// the layer to the device included).
struct TorchPeerResult {
  LayerResults results;
  double seconds = 0;
};

/// Of `study`, selectors are taken at their defaults, without dense layers; known are exact, ffd, quest, kivi, twilight
/// and streaming_llm. `device`: "cpu", "cuda:0". Opens LibTorch on first use. Throws Error where it cannot.
TorchPeerResult run_torch_peer(const AttentionLayer& layer, const Study& study, const std::string& device, int threads);

}  // namespace attest
