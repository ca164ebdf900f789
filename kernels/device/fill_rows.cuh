// Fills a [rows, tokens] matrix with a function of row and token. A thread writes eight neighbouring tokens at once.
#pragma once

#include "kernels/device/cuda_check.h"
#include "kernels/device/device_rows.h"

namespace attest {

namespace fill_rows_detail {

inline constexpr int kThreads = 256;

template <class T, class Value>
__global__ void __launch_bounds__(kThreads) fill_rows_kernel(DeviceRows rows, const Value value, T* out) {
  struct alignas(16) Eight {
    T of[8];
  };
  const int token = (blockIdx.x * kThreads + static_cast<int>(threadIdx.x)) * 8, row = blockIdx.y,
            visible = rows.visible[row];
  if (token >= visible) return;
  Eight eight;
#pragma unroll
  for (int i = 0; i < 8; ++i) eight.of[i] = token + i < visible ? value(row, token + i) : T{0};
  *reinterpret_cast<Eight*>(out + row * rows.stride + token) = eight;
}

}  // namespace fill_rows_detail

/// out[row][token] = value(row, token) for visible tokens, 0 for the rest up to a multiple of eight.
/// out [rows, rows.stride].
template <class T, class Value>
void fill_rows(const DeviceRows& rows, const Value& value, T* out, cudaStream_t stream) {
  using namespace fill_rows_detail;
  if (rows.num_rows == 0) return;
  const dim3 grid((rows.max_length + kThreads * 8 - 1) / (kThreads * 8), rows.num_rows);
  fill_rows_kernel<<<grid, kThreads, 0, stream>>>(rows, value, out);
  ATTEST_CUDA_LAUNCHED(fill_rows_kernel);
}

}  // namespace attest
