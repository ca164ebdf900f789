// Results of a decode call that computes attention, and their check.
#pragma once

#include "analysis/decode_bench/decode_method_cuda.h"

namespace attest {

/// Results of attention in device memory.
struct AttentionResult {
  explicit AttentionResult(const DecodeContext& context);
  float* lse_values() const { return reinterpret_cast<float*>(lse.data()); }
  DeviceBuffer out;  ///< [rows, Dv] of the element type
  DeviceBuffer lse;  ///< [rows]
};

/// The same delta for every KV head.
DeviceBuffer deltas_on_device(const DecodeContext& context, double delta);

/// Compares with the reference over what was kept and fills check and fidelity. `bits`: what the keys are read from.
void check_attention(const KernelSpec& spec, const DecodeContext& context, int bits, const KeptBlocks& kept,
                     const AttentionResult& attention, KernelResult& result);

}  // namespace attest
