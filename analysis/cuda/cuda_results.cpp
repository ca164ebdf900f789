// Device buffer of a layer's results, and its copy to the host.
#include "analysis/cuda/cuda_results.h"

#include <algorithm>
#include <cstring>

#include "analysis/cuda/cuda_placement.h"
#include "kernels/device/cuda_check.h"

namespace attest {

void CudaResults::begin_span_tokens(cudaStream_t stream) {
  const std::size_t queries = layout_.seen_span_tokens.size();
  std::size_t words = 0;
  span_offsets_.clear();
  for (const SelectorLayout& selector : layout_.selectors) {
    span_offsets_.push_back(words);
    words += selector.span_bits.size(static_cast<std::int64_t>(queries));
  }
  if (words == 0) return;
  span_words_.reserve(words * sizeof(std::uint32_t));
  ATTEST_CUDA(cudaMemsetAsync(span_words_.data(), 0, words * sizeof(std::uint32_t), stream));
  const std::size_t bytes = queries * sizeof(SpanTokenRange);
  seen_.reserve(bytes);
  std::memcpy(seen_.data(), layout_.seen_span_tokens.data(), bytes);
}

void CudaResults::begin(const Study& study, std::span<const Metric> metrics, const AttentionLayer& layer,
                        cudaStream_t stream) {
  study_ = &study;
  layer_ = &layer;
  layout_ = LayerResultsLayout(study, metrics, layer);
  const auto rows = static_cast<std::size_t>(layer.num_queries() * layer.shape.num_query_heads);
  std::size_t sums = 0;
  sums_offsets_.clear();
  for (const SelectorLayout& selector : layout_.selectors) {
    std::vector<std::size_t>& offsets = sums_offsets_.emplace_back();
    for (const ResultArray& array : selector.arrays) {
      offsets.push_back(sums);
      if (array.functions<LayerFunctions>() != nullptr) sums += rows * selector.num_settings;
    }
  }
  device_.reserve(layout_.num_cells * sizeof(float));
  sums_.reserve(sums * sizeof(HeadSums));
  host_.reserve(layout_.num_cells * sizeof(float));
  overflow_.reserve(sizeof(OverflowKey));
  overflow_on_host_.reserve(sizeof(OverflowKey));
  ATTEST_CUDA(cudaMemsetAsync(overflow_.data(), 0xFF, sizeof(OverflowKey), stream));  // kNoOverflow
  fill_undefined(reinterpret_cast<float*>(device_.data()), static_cast<std::int64_t>(layout_.num_cells), stream);
  begin_span_tokens(stream);
}

void CudaResults::make_no_head_dense() {
  for (SelectorLayout& selector : layout_.selectors) selector.dense_heads.assign(selector.dense_heads.size(), false);
}

SpanBits CudaResults::span_bits(std::size_t selector) const {
  SpanBits bits = layout_.selectors[selector].span_bits;
  bits.bits = reinterpret_cast<std::uint32_t*>(span_words_.data()) + span_offsets_[selector];
  return bits;
}

float* CudaResults::cells(const ResultArray& array) const {
  return reinterpret_cast<float*>(device_.data()) + array.begin;
}

CudaCells CudaResults::score_cells() const {
  std::vector<CudaCells::Array> arrays;
  for (const ResultArray& array : layout_.scores) arrays.push_back({array.info.name, cells(array)});
  return CudaCells(std::move(arrays));
}

CudaCells CudaResults::selector_cells(std::size_t selector) const {
  const std::vector<ResultArray>& all = layout_.selectors[selector].arrays;
  std::vector<CudaCells::Array> arrays;
  for (std::size_t a = 0; a < all.size(); ++a)
    arrays.push_back({all[a].info.name, cells(all[a]),
                      all[a].functions<LayerFunctions>() == nullptr
                          ? nullptr
                          : reinterpret_cast<HeadSums*>(sums_.data()) + sums_offsets_[selector][a]});
  return CudaCells(std::move(arrays), span_bits(selector));
}

void CudaResults::enqueue_finish(int num_queries, int num_heads, cudaStream_t stream) {
  for (std::size_t s = 0; s < layout_.selectors.size(); ++s) {
    const SelectorLayout& selector = layout_.selectors[s];
    for (std::size_t a = 0; a < selector.arrays.size(); ++a) {
      if (const SpanTokenFunctions* functions = selector.arrays[a].functions<SpanTokenFunctions>())
        functions->cuda_combine({span_bits(s), reinterpret_cast<const SpanTokenRange*>(seen_.data()), num_queries,
                                 static_cast<int>(selector.num_settings), cells(selector.arrays[a]), stream});
      if (const LayerFunctions* functions = selector.arrays[a].functions<LayerFunctions>())
        functions->cuda_combine({reinterpret_cast<const HeadSums*>(sums_.data()) + sums_offsets_[s][a], num_queries,
                                 num_heads, static_cast<int>(selector.num_settings), cells(selector.arrays[a]),
                                 stream});
    }
  }
  ATTEST_CUDA(
      cudaMemcpyAsync(host_.data(), device_.data(), layout_.num_cells * sizeof(float), cudaMemcpyDeviceToHost, stream));
  ATTEST_CUDA(
      cudaMemcpyAsync(overflow_on_host_.data(), overflow_.data(), sizeof(OverflowKey), cudaMemcpyDeviceToHost, stream));
  // Allocated here, while the device computes, because the first touch of new pages is slow.
  results_ = layout_.undefined();
}

LayerResults CudaResults::take() {
  OverflowKey key = kNoOverflow;
  std::memcpy(&key, overflow_on_host_.data(), sizeof key);
  if (const std::optional<Overflow> overflow = overflow_of_key(key, layer_->shape.num_query_heads)) {
    LayerResults nothing;
    nothing.defect = describe(*overflow, *study_, *layer_);
    return nothing;
  }
  const float* from = reinterpret_cast<const float*>(host_.data());
  const auto fill = [&](std::vector<MetricValues>& metrics) {
    for (MetricValues& metric : metrics) {
      std::copy_n(from, metric.values.size(), metric.values.begin());
      from += metric.values.size();
    }
  };
  fill(results_.scores);
  for (SelectorLayerResults& selector : results_.selectors) fill(selector.metrics);
  return std::move(results_);
}

}  // namespace attest
