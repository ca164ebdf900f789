// The form that a pass over the keys turns them into, and where their scores go.
#pragma once

#include "kernels/device/device_rows.h"
#include "kernels/device/octet.cuh"
#include "kernels/device/octet_places.h"

namespace attest {

/// From a dot product to a score in natural-log units.
__device__ inline float score_of(float dot, const DeviceKeyValues& kv) {
  const float s = kv.scale * dot;
  return kv.softcap > 0 ? kv.softcap * tanhf(s / kv.softcap) : s;
}

/// The same keys, whose scores are the bare dot products.
inline DeviceKeyValues with_bare_products(DeviceKeyValues kv) {
  kv.scale = 1;
  kv.softcap = 0;
  return kv;
}

/// What a pass over the keys fills. Token j of row r is scored from the form for j < limit[r]; from there to the row's
/// end the exact score is copied.
struct ScoreTargets {
  const int* limit = nullptr;    ///< [rows]; null: all tokens
  const float* exact = nullptr;  ///< [rows, stride]; needed with `limit`
  float* scores = nullptr;       ///< [rows, stride] of the form's keys; 0 beyond the row's end
  float* refined = nullptr;      ///< [rows, stride] of keys plus residuals, where the form has any

  // Only for short rows (score_rest.cuh):
  const float* exact_low = nullptr;
  float* low = nullptr;  ///< [rows, stride] scores + low = the score in double, nearly
};

/// Keys as they are.
struct ExactKeys {
  int num_parts = 1;
  static constexpr int num_residual_parts = 0;
  static constexpr bool has_residual = false;
  __device__ void operator()(const KeyPlace&, float (&)[kOctet], float (&)[kOctet]) const {}
};

}  // namespace attest
