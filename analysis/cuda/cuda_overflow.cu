// Finds overflows with one pass over each matrix. A key holds, from the upper bits down: the step (14 bits), the cell
// (28 bits) and the token (22 bits; the GPU study takes at most 3,000,000 tokens).
#include "analysis/cuda/cuda_overflow.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kOverflowThreads = 256, kPerThread = 8;
constexpr int kTokenBits = 22, kCellBits = 28;
static_assert(kMaxOverflowTokens == 1 << kTokenBits && kMaxOverflowCells == 1 << kCellBits);
constexpr OverflowKey kFirstOfSelectors = 2;  // the steps before: score, exact_output
constexpr OverflowKey kStepsOfSelector = 3;

OverflowKey key_of_step(const Overflow& where) {
  const auto step = static_cast<OverflowKey>(where.step);
  const OverflowKey rank =
      step < kFirstOfSelectors ? step : step + static_cast<OverflowKey>(where.selector) * kStepsOfSelector;
  return rank << (kCellBits + kTokenBits);
}

__device__ void report(OverflowKey step, int cell, int token, OverflowKey* first) {
  const OverflowKey key = step | static_cast<OverflowKey>(cell) << kTokenBits | static_cast<OverflowKey>(token);
  if (key < *static_cast<volatile OverflowKey*>(first)) atomicMin(first, key);  // seldom, even where all values are bad
}

__global__ void __launch_bounds__(kOverflowThreads)
    scores_kernel(RowValues in, const int* cell, float lowest, OverflowKey step, OverflowKey* first) {
  const int row = blockIdx.y, count = in.counts[row];
  const int begin = static_cast<int>(blockIdx.x) * kOverflowThreads * kPerThread + static_cast<int>(threadIdx.x);
  const float* values = in.row(row);
  float value[kPerThread];  // all loads in flight before the first comparison
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    value[i] = begin + i * kOverflowThreads < count ? values[begin + i * kOverflowThreads] : lowest;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    if (!(value[i] <= kLargestScore && value[i] >= lowest))
      report(step, cell[row], begin + i * kOverflowThreads, first);
}

__global__ void __launch_bounds__(kOverflowThreads)
    outputs_kernel(DeviceOutputs outputs, const int* cell, OverflowKey step, OverflowKey* first) {
  const int row = blockIdx.x, count = outputs.num_settings * outputs.value_dim;
  const float* own = outputs.output + static_cast<std::int64_t>(row) * count;
  for (int i = threadIdx.x; i < count; i += kOverflowThreads)
    if (!(own[i] * 0 == 0)) report(step, cell[row], 0, first);
}

}  // namespace

std::optional<Overflow> overflow_of_key(OverflowKey key, int num_heads) {
  if (key == kNoOverflow) return std::nullopt;
  const OverflowKey rank = key >> (kCellBits + kTokenBits);
  const auto cell = static_cast<std::int64_t>(key >> kTokenBits & ((OverflowKey{1} << kCellBits) - 1));
  Overflow where;
  const OverflowKey step =
      rank < kFirstOfSelectors ? rank : kFirstOfSelectors + (rank - kFirstOfSelectors) % kStepsOfSelector;
  where.step = static_cast<OverflowStep>(step);
  if (rank >= kFirstOfSelectors) where.selector = (rank - kFirstOfSelectors) / kStepsOfSelector;
  where.query = cell / num_heads;
  where.query_head = static_cast<int>(cell % num_heads);
  where.token = static_cast<std::int64_t>(key & ((OverflowKey{1} << kTokenBits) - 1));
  return where;
}

void cuda_find_overflow(const CudaChunk& chunk, const RowValues& values, float lowest, const Overflow& where,
                        OverflowKey* first) {
  if (values.rows == 0 || values.max_count == 0) return;
  constexpr int kPerBlock = kOverflowThreads * kPerThread;
  const dim3 grid((values.max_count + kPerBlock - 1) / kPerBlock, values.rows);
  scores_kernel<<<grid, kOverflowThreads, 0, chunk.stream>>>(values, chunk.rows.cell, lowest, key_of_step(where),
                                                             first);
  ATTEST_CUDA_LAUNCHED(scores_kernel);
}

void cuda_find_overflow(const CudaChunk& chunk, const DeviceOutputs& outputs, const Overflow& where,
                        OverflowKey* first) {
  if (chunk.rows.num_rows == 0) return;
  outputs_kernel<<<chunk.rows.num_rows, kOverflowThreads, 0, chunk.stream>>>(outputs, chunk.rows.cell,
                                                                             key_of_step(where), first);
  ATTEST_CUDA_LAUNCHED(outputs_kernel);
}

}  // namespace attest
