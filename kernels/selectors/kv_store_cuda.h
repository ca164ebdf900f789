// A quantised KV cache on the device, for a chunk of rows.
#pragma once

#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/kv_store.h"

namespace attest {

/// What a chunk reads from the cache, in its arena. Null where the cache stores 16 bits.
struct StoredOnDevice {
  float* scores = nullptr;  ///< [rows, stride] with K^
  float* low = nullptr;     ///< double score minus `scores`, for short rows
  MadeTokens values;        ///< V^
};
StoredOnDevice cuda_store(const KvStore& store, const CudaChunk& chunk);

}  // namespace attest
