// Enters the LibTorch peer through its module.
#include <fmt/core.h>

#include "analysis/torch/module_loader.h"
#include "analysis/torch/torch_peer.h"
#include "dumps/base/error.h"

namespace attest {

TorchPeerResult run_torch_peer(const AttentionLayer& layer, const Study& study, const std::string& device,
                               int threads) {
  const char* const lacking = layer.sliding_window > 0          ? "a sliding window"
                              : layer.logit_softcap > 0         ? "a soft-cap of the scores"
                              : layer.shape.values_in_keys != 0 ? "values in its keys"
                                                                : nullptr;
  if (lacking != nullptr)
    throw UsageError(fmt::format("layer {} has {}, which the LibTorch peer does not have: --no-peer leaves it out",
                                 layer.layer, lacking));
  using Entry = bool (*)(const AttentionLayer*, const Study*, const char*, int, TorchPeerResult*, std::string*);
  static const auto entry = reinterpret_cast<Entry>(
      torch_entry("attest_torch_peer", "LibTorch peer", "'./attest bench' builds it, --no-peer leaves it out"));
  TorchPeerResult result;
  std::string error;
  if (!entry(&layer, &study, device.c_str(), threads, &result, &error)) throw Error("LibTorch peer: " + error);
  return result;
}

}  // namespace attest
