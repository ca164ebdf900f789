// Token levels from item levels, and shares of kept items, on the device.
#include "kernels/device/cuda_check.h"
#include "kernels/device/fill_rows.cuh"
#include "kernels/device/not_defined.cuh"
#include "kernels/rank/token_levels_cuda.h"

namespace attest {
namespace {

constexpr int kTokenLevelsThreads = 256;

struct LevelOfItem {
  DeviceMatrix<const Level> items;
  int width;
  const int* covered;
  __device__ Level operator()(int row, int token) const {
    return covered == nullptr || token < covered[row] ? items.row(row)[token / width] : Level{0};
  }
};
struct SameLevel {
  Level level;
  __device__ Level operator()(int, int) const { return level; }
};

/// One block per row.
__global__ void shares_kernel(RaggedRows<const Level> levels, int num_settings, float* shares) {
  extern __shared__ int entering[];  // [S + 1]
  const int row = blockIdx.x, count = levels.counts[row];
  for (int i = threadIdx.x; i <= num_settings; i += kTokenLevelsThreads) entering[i] = 0;
  __syncthreads();
  for (int item = threadIdx.x; item < count; item += kTokenLevelsThreads)
    atomicAdd(&entering[levels.row(row)[item]], 1);
  __syncthreads();
  if (threadIdx.x != 0) return;
  int kept = 0;
  for (int i = 0; i < num_settings; ++i) {
    kept += entering[i];
    shares[static_cast<std::int64_t>(row) * num_settings + i] =
        count > 0 ? static_cast<float>(static_cast<double>(kept) / count) : not_defined();
  }
}

}  // namespace

void cuda_token_levels(const DeviceRows& rows, const DeviceMatrix<const Level>& items, int width, const int* covered,
                       Level* levels, cudaStream_t stream) {
  fill_rows(rows, LevelOfItem{items, width, covered}, levels, stream);
}

void cuda_fill_levels(const DeviceRows& rows, Level level, Level* levels, cudaStream_t stream) {
  fill_rows(rows, SameLevel{level}, levels, stream);
}

void cuda_level_shares(const RaggedRows<const Level>& levels, int num_settings, float* shares, cudaStream_t stream) {
  if (levels.rows == 0) return;
  shares_kernel<<<levels.rows, kTokenLevelsThreads, static_cast<std::size_t>(num_settings + 1) * sizeof(int), stream>>>(
      levels, num_settings, shares);
  ATTEST_CUDA_LAUNCHED(shares_kernel);
}

}  // namespace attest
