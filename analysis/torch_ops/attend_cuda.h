// Attention through a selector at one setting, on tensors in device memory: torch.ops.attest.attend without LibTorch.
#pragma once

#include <cstdint>

#include "dumps/attention_layer.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// The counterpart of AttendCall. Arrays are row-major, in the memory of the device, and aligned to 16 bytes.
struct CudaAttendCall {
  const Selector* selector = nullptr;
  Setting setting;       ///< ignored by a selector without settings
  AttentionLayer layer;  ///< as in AttendCall
  std::int64_t batch = 1;
  const void* q = nullptr;                ///< [batch, N, Hq, D]
  const void *k = nullptr, *v = nullptr;  ///< [batch, Hkv, T, D] and [batch, Hkv, T, Dv]
  int device = 0;
  void* stream = nullptr;  ///< cudaStream_t that the arrays are ready on

  // -- results
  void* out = nullptr;           ///< [batch, N, Hq, Dv] in the layer's element type
  float* lse = nullptr;          ///< [batch, N, Hq]; -inf if no token is kept
  std::int64_t* kept = nullptr;  ///< [batch, N, Hkv] tokens that any head of the group keeps
};

/// Waits for the stream once, at the end, to tell of numbers that are too large. Scratch memory is the device's, kept
/// from call to call. Throws UsageError as check_supported() does and if the selector has no CUDA code, InputError if a
/// score, an estimate or an output is NaN or too large, DeviceError if the device fails.
void cuda_attend(const CudaAttendCall& call);

}  // namespace attest
