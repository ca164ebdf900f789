// Output arrays of a scoring pass, and the trivial key form (exact keys).
#pragma once

#include "kernels/device/device_rows.h"
#include "kernels/device/octet.cuh"
#include "kernels/device/octet_places.h"

namespace attest {

/// Turns a dot product into a score in natural-log units.
__device__ inline float score_of(float dot, const DeviceKeyValues& kv) {
  const float s = kv.scale * dot;
  return kv.softcap > 0 ? kv.softcap * tanhf(s / kv.softcap) : s;
}

/// The same keys without scale and soft-cap: their scores are the dot products.
inline DeviceKeyValues without_score_transform(DeviceKeyValues kv) {
  kv.scale = 1;
  kv.softcap = 0;
  return kv;
}

/// Outputs of a scoring pass. In row r, tokens j < limit[r] are scored with the form's keys; the exact score is copied
/// for the others.
struct ScoreTargets {
  const int* limit = nullptr;    ///< [rows]; null: all tokens
  const float* exact = nullptr;  ///< [rows, stride]; required with `limit`
  float* scores = nullptr;       ///< [rows, stride] with the form's keys; 0 beyond the row's end
  float* refined = nullptr;      ///< [rows, stride] with keys plus residuals, if the form has residuals

  // Only for short rows (low_scores.cuh):
  const float* exact_low = nullptr;  ///< [rows, stride] `low` of the exact scores; required with `limit` and `low`
  float* low = nullptr;              ///< [rows, stride] scores + low approximates the score in double
};

/// Exact keys: the form that changes nothing.
struct ExactKeys {
  int num_parts = 1;
  static constexpr int num_residual_parts = 0;
  static constexpr bool has_residual = false;
  __device__ void operator()(const KeyPlace&, float (&)[kOctet], float (&)[kOctet]) const {}
};

}  // namespace attest
