// Codes and residuals of keys on the device: those of quantize/ffd_thumbnail.h, bit for bit.
#pragma once

namespace attest {

/// Distance of two codes of a channel. `amax`: its largest magnitude in the block; `z`: half of the largest code.
__device__ inline float ffd_step(float amax, float z) { return fmaxf(__fdiv_rn(amax, z), 1e-8f); }

struct FfdCode {
  float code;      ///< 0 .. 2 z, whole
  float residual;  ///< what the code leaves of the key, in float32
};

__device__ inline FfdCode ffd_code(float key, float step, float z) {
  const float code = fminf(fmaxf(rintf(__fadd_rn(__fdiv_rn(key, step), z)), 0.0f), 2 * z);
  return {code, __fsub_rn(key, __fmul_rn(code - z, step))};
}

}  // namespace attest
