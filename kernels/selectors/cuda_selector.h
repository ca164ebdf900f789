// A selector on the device: the same estimate, rule and reads as its CPU counterpart, for all rows of a chunk at once.
// This header does not include CUDA, so that a CPU selector can return its CUDA counterpart.
#pragma once

#include <span>

#include "kernels/selectors/selector.h"

namespace attest {

struct CudaChunk;
struct CudaSelection;

class CudaSelector {
 public:
  virtual ~CudaSelector() = default;
  /// Whether select() reads CudaChunk::exact_order.
  virtual bool needs_exact_order() const { return false; }
  /// Fills `out`. Enqueues work on the chunk's stream, and neither waits for the device nor takes memory but that of
  /// the chunk. (`imported` copies its estimates from pageable memory, where CUDA may wait for what was enqueued.)
  /// grids [queries of the layer], S settings each, without CudaChunk::setting_shift, which query_settings() adds.
  virtual void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const = 0;
};

}  // namespace attest
