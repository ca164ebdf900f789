// The work of a chunk is only enqueued, whatever the selector: while a stream is captured, CUDA refuses a call that
// waits for the device or allocates.
#include <gtest/gtest.h>

#include "analysis/cuda/cuda_layer_chunk.h"
#include "kernels/device/stream.h"
#include "kernels/rank/segments_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/selection_outputs_cuda.h"
#include "tests/analysis/cuda/cuda_study_cases.h"

namespace attest::cuda_test {
namespace {

DeviceBuffer on_device(const LayerBuffer& values) {
  DeviceBuffer buffer(values.size());
  ATTEST_CUDA(cudaMemcpy(buffer.data(), values.data(), values.size(), cudaMemcpyHostToDevice));
  return buffer;
}

/// A layer on the device whose attention through a selector can be enqueued again and again.
class ChunkOfLayer {
 public:
  explicit ChunkOfLayer(const Case& c)
      : layer_(make_layer(c)),
        q_(on_device(layer_.q)),
        k_(on_device(layer_.k)),
        v_(on_device(layer_.v)),
        amax_(2 * static_cast<std::size_t>(c.kv_heads) * sizeof(float)),
        heads_{0, c.kv_heads},
        tables_(row_tables(layer_, heads_, query_groups(layer_, heads_))) {
    auto* amax = reinterpret_cast<float*>(amax_.data());
    inputs_ = {q_.data(), k_.data(), v_.data(), heads_, amax, amax + c.kv_heads};
    cuda_layer_amax(layer_, inputs_, amax, stream_);
  }

  void enqueue(const StudySelector& chosen) {
    const DeviceArena::Scope scope(arena_);
    CudaChunk chunk = layer_chunk(layer_, inputs_, tables_, arena_, uploads_, stream_);
    cuda_exact_scores(chunk);
    const RowValues scores = chunk.visible_values(chunk.exact);
    auto* maximum = chunk.take<float>(tables_.visible.size());
    cuda_row_maxima(scores, maximum, stream_);
    chunk.exact_max = maximum;
    const RowOrder order = cuda_sort_descending(scores, arena_, stream_);
    chunk.exact_order = &order;
    const std::span<const Setting> grid(chosen.grid.data(), chosen.selector->monotone() ? chosen.grid.size() : 1);
    CudaSelection selection;
    chosen.selector->cuda_code()->select(chunk, layer_grids(layer_, *chosen.selector, grid), selection);
    cuda_selection_outputs(chunk, selection, static_cast<int>(grid.size()));
  }

  void finish() {
    stream_.synchronize();
    uploads_.reset();
  }
  const CudaStream& stream() const { return stream_; }

 private:
  CudaStream stream_;
  DeviceArena arena_{std::size_t{8} << 30};
  Uploads uploads_;
  AttentionLayer layer_;
  DeviceBuffer q_, k_, v_, amax_;
  KvHeadRange heads_;
  RowTables tables_;
  DeviceInputs inputs_;
};

class CudaLayerChunk : public testing::TestWithParam<Case> {};

TEST_P(CudaLayerChunk, IsCapturedWithEverySelector) {
  SKIP_WITHOUT_GPU();
  const Case& c = GetParam();
  ChunkOfLayer on(c);
  for (const Study& study : {all_selectors_study(c), study_of(kVariants), double_sparsity(c), kv_cache_study(c)})
    for (const StudySelector& chosen : study.selectors) {
      if (chosen.name == "imported") continue;  // it copies from pageable memory (cuda_selector.h)
      SCOPED_TRACE(chosen.label);
      on.enqueue(chosen);  // takes the memory that the captured call finds
      on.finish();
      ATTEST_CUDA(cudaStreamBeginCapture(on.stream(), cudaStreamCaptureModeThreadLocal));
      EXPECT_NO_THROW(on.enqueue(chosen));
      cudaGraph_t graph = nullptr;
      ASSERT_EQ(cudaStreamEndCapture(on.stream(), &graph), cudaSuccess);
      std::size_t nodes = 0;
      ATTEST_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
      EXPECT_GT(nodes, 3);
      ATTEST_CUDA(cudaGraphDestroy(graph));
    }
}

/// Rows that one thread block sorts, and rows that CUB sorts; windows.
std::vector<Case> captured_cases() {
  std::vector<Case> chosen;
  for (const Case& c : kCases)
    for (const std::string_view name : {"llama_bf16", "beyond_one_block", "d256_softcap_window"})
      if (c.name == name) chosen.push_back(c);
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaLayerChunk, testing::ValuesIn(captured_cases()),
                         [](const testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace attest::cuda_test
