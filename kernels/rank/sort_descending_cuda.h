// Stable descending sort of every row on the device: the order behind rank correlation, top-k and top-p.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/device_arena.h"

namespace attest {

/// A [rows, stride] matrix whose row r is defined for its first counts[r] items. Pointers into device memory.
struct RowValues {
  const float* values = nullptr;
  std::int64_t stride = 0;
  const int* counts = nullptr;  ///< [rows]
  int rows = 0;
  int max_count = 0;  ///< no count is larger
};

/// Items of every row in order; item(r, i) is defined for i < counts[r].
struct RowOrder {
  const std::uint32_t* items = nullptr;
  std::int64_t stride = 0;
  std::uint32_t mask = 0xFFFFFFFFu;  ///< the bits of an entry that hold the item

#ifdef __CUDACC__
  __device__ int operator()(int row, int i) const { return static_cast<int>(items[row * stride + i] & mask); }
#endif
};

/// Item of the i-th largest value; equal values (and +0, -0) in ascending item. No NaN. The order lives in `arena`.
RowOrder sort_rows(const RowValues& values, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
