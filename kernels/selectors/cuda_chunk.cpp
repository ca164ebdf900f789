// Allocations of CudaChunk that several selectors use.
#include "kernels/selectors/cuda_chunk.h"

#include <algorithm>

#include "kernels/device/cuda_check.h"

namespace attest {

Level* CudaChunk::take_levels() const {
  Level* levels = take_rows<Level>();
  if (rows.num_rows == 0) return levels;
  const auto shortest = static_cast<std::int64_t>(*std::ranges::min_element(visible)), stride = rows.stride;
  ATTEST_CUDA(cudaMemset2DAsync(levels + shortest, static_cast<std::size_t>(stride) * sizeof(Level), 0,
                                static_cast<std::size_t>(stride - shortest) * sizeof(Level),
                                static_cast<std::size_t>(rows.num_rows), stream));
  return levels;
}

}  // namespace attest
