// Enters LibTorch's attention through its module.
#include "analysis/torch/module_loader.h"
#include "analysis/torch/torch_sdpa.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

void call_module(const SdpaCall& call, SdpaResult* result) {
  using Entry = bool (*)(const SdpaCall*, SdpaResult*, std::string*);
  static const auto entry =
      reinterpret_cast<Entry>(torch_entry("attest_torch_sdpa", "LibTorch", "'./attest bench' builds it"));
  std::string error;
  if (!entry(&call, result, &error)) throw Error("LibTorch: " + error);
}

}  // namespace

void enqueue_torch_sdpa(const SdpaCall& call) { call_module(call, nullptr); }

SdpaResult run_torch_sdpa(const SdpaCall& call) {
  SdpaResult result;
  call_module(call, &result);
  return result;
}

}  // namespace attest
