// LibTorch's scaled_dot_product_attention of one query per sequence, by a back end of choice: what dense decoding
// costs.
#pragma once

#include <cstdint>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

enum class SdpaBackend : std::uint8_t { flash, cudnn };

/// Device pointers, and the stream on which the kernels are enqueued.
struct SdpaCall {
  SdpaBackend backend = SdpaBackend::flash;
  AttentionShape shape;
  ElementType element_type = ElementType::float16;
  int batch = 1;
  std::int64_t length = 0;
  double scale = 1;
  const void* q = nullptr;  ///< [batch, Hq, 1, D]
  const void* k = nullptr;  ///< [batch, Hkv, length, D]: heads are grouped by the back end, not repeated
  const void* v = nullptr;  ///< [batch, Hkv, length, Dv]
  int device = 0;
  void* stream = nullptr;  ///< a cudaStream_t, not the default one
};

/// Enqueues the call; its output is thrown away. The memory that LibTorch takes for it comes from its cache once the
/// same call has run before, so that it can then be captured in a CUDA graph. Throws Error if LibTorch cannot be opened
/// or refuses.
void enqueue_torch_sdpa(const SdpaCall& call);

struct SdpaResult {
  std::vector<float> out;  ///< [batch, Hq, Dv]
  std::vector<float> lse;  ///< [batch, Hq]; empty: the back end was not asked for it
};

/// The same, with the results on the host. Waits for the device.
SdpaResult run_torch_sdpa(const SdpaCall& call);

}  // namespace attest
