// Rows of a layer in device memory that a format's CUDA function quantises and dequantises.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/device_rows.h"

namespace attest {

/// Tokens [first_token, first_token + num_tokens) of heads [first_head, first_head + num_heads). A function of a format
/// enqueues its work and does not wait.
struct DeviceKvRows {
  DeviceTokens tokens;  ///< keys or values of all heads on the device
  int first_head = 0, num_heads = 0;
  std::int64_t first_token = 0, num_tokens = 0;
  const float* scales = nullptr;  ///< [num_heads] KvScale::of()

  float* out = nullptr;  ///< [num_heads, num_tokens, channels] what the format's CPU code gives, rounded to float32
  float* low = nullptr;  ///< the same shape, the low part, which float32 lacks; or null
  cudaStream_t stream = nullptr;
};

}  // namespace attest
