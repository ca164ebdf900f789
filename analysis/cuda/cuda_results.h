// The results of a layer on the device: all arrays of LayerResultsLayout in one buffer, which is copied to the host.
#pragma once

#include <span>
#include <vector>

#include "analysis/cuda/cuda_overflow.h"
#include "analysis/layer/layer_results_layout.h"
#include "analysis/metrics/rows_cuda.h"
#include "kernels/device/buffers.h"

namespace attest {

class CudaResults {
 public:
  /// Lays out the arrays of a layer and fills them with NaN. `study` and `layer` must stay until take().
  void begin(const Study& study, std::span<const Metric> metrics, const AttentionLayer& layer, cudaStream_t stream);

  /// From here on every selector computes every head.
  void make_no_head_dense();

  const LayerResultsLayout& layout() const { return layout_; }
  CudaCells score_cells() const;
  CudaCells selector_cells(std::size_t selector) const;

  /// Where the layer's kernels note the first overflow.
  OverflowKey* first_overflow() const { return reinterpret_cast<OverflowKey*>(overflow_.data()); }

  /// Enqueues the metrics of the whole layer and the copy of all results to the host.
  void enqueue_finish(int num_queries, int num_heads, cudaStream_t stream);
  /// The results, or the defect of a layer with an overflow. Call it after the enqueued work has finished.
  LayerResults take();

 private:
  float* cells(const ResultArray& array) const;
  SpanBits span_bits(std::size_t selector) const;
  /// Clears the bits of span tokens and notes what each query sees of them.
  void begin_span_tokens(cudaStream_t stream);

  const Study* study_ = nullptr;
  const AttentionLayer* layer_ = nullptr;
  LayerResultsLayout layout_;
  LayerResults results_;
  std::vector<std::vector<std::size_t>> sums_offsets_;  // [selector][array]: offsets of layer metrics in sums_
  std::vector<std::size_t> span_offsets_;               // [selector]: of its words in span_words_
  DeviceBuffer device_, sums_, overflow_, span_words_;
  PageLockedBuffer host_, overflow_on_host_;
  PageLockedBuffer seen_;  ///< kernels read it in place: a copy would wait for those of the next layer
};

}  // namespace attest
