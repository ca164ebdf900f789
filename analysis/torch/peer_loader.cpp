// Loads the LibTorch module on first use. Loading takes a quarter of a second, and only benchmarks need it.
#include <dlfcn.h>

#include "analysis/torch/torch_peer.h"
#include "dumps/base/error.h"

namespace attest {

TorchPeerResult run_torch_peer(const AttentionLayer& layer, const Study& study, const std::string& device,
                               int threads) {
  using Entry = bool (*)(const AttentionLayer*, const Study*, const char*, int, TorchPeerResult*, std::string*);
  static const Entry entry = [] {
    void* module = dlopen(ATTEST_TORCH_MODULE, RTLD_NOW | RTLD_LOCAL);
    void* symbol = module != nullptr ? dlsym(module, "attest_torch_peer") : nullptr;
    if (symbol == nullptr)
      throw Error(std::string("LibTorch peer: cannot be opened: ") + dlerror() +
                  "; './attest bench' builds it, --no-peer leaves it out");
    return reinterpret_cast<Entry>(symbol);
  }();
  TorchPeerResult result;
  std::string error;
  if (!entry(&layer, &study, device.c_str(), threads, &result, &error)) throw Error("LibTorch peer: " + error);
  return result;
}

}  // namespace attest
