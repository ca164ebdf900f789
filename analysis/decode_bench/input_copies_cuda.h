// Copies of a step's inputs in device memory, so many that a method never finds them in the level-2 cache; made on
// first use, and within the memory that may be taken.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/decode_bench/decode_inputs_cuda.h"
#include "kernels/decode/ffd_cache_cuda.h"

namespace attest {

/// Device memory that may be taken, of which `free` bytes are left now.
class DeviceMemoryBudget {
 public:
  explicit DeviceMemoryBudget(const DeviceMemoryLimit& limit);
  std::int64_t free() const;
  /// Throws NotMeasurable, "WHAT take 12.0 GiB, 3.0 GiB of the device's memory are left".
  void require(std::int64_t bytes, const std::string& what) const;

 private:
  std::int64_t limit_ = 0;
};

struct KeysValues {
  const void* k = nullptr;  ///< [batch, Hkv, length, D]
  const void* v = nullptr;  ///< [batch, Hkv, length, Dv]
};

class InputCopies {
 public:
  /// The inputs and the budget must outlive it.
  InputCopies(const DecodeInputs& inputs, const DeviceMemoryBudget& budget, cudaStream_t stream)
      : inputs_(inputs), budget_(budget), stream_(stream) {}

  /// Enough for methods that read all keys. Throws NotMeasurable.
  const std::vector<KeysValues>& dense();

  /// Enough for calls that read the thumbnails and little more. Those of other bits are freed first. Throws
  /// NotMeasurable.
  const std::vector<std::unique_ptr<FfdCache>>& quantised(int bits);
  const DeviceMemoryBudget& budget() const { return budget_; }

 private:
  const DecodeInputs& inputs_;
  const DeviceMemoryBudget& budget_;
  cudaStream_t stream_;
  std::vector<KeysValues> dense_;
  std::vector<DeviceBuffer> dense_memory_;
  std::vector<std::unique_ptr<FfdCache>> caches_;
  int cached_bits_ = 0;
};

/// The shape of a cache of the inputs, with room for whole blocks.
FfdCacheShape cache_shape(const KernelInputs& what, int bits);

}  // namespace attest
