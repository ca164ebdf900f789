// Input and output of a selector on the device: CudaChunk, a chunk of rows, and CudaSelection, the result for them.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"
#include "kernels/device/uploads.h"
#include "kernels/quantize/kivi_groups.h"
#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/selector.h"

namespace attest {

struct CudaChunk;

/// One number per row, on both host and device.
struct RowCounts {
  std::vector<int> host;
  const int* device = nullptr;
  int max = 0;

  RowCounts() = default;
  /// of_visible(number of visible keys) for each row.
  template <class OfVisible>
  RowCounts(const CudaChunk& chunk, OfVisible&& of_visible);
  /// of_count(counts[row]) for each row.
  template <class OfCount>
  RowCounts(const CudaChunk& chunk, const RowCounts& counts, OfCount&& of_count) {
    fill(chunk, counts.host, of_count);
  }

 private:
  template <class Of>
  void fill(const CudaChunk& chunk, std::span<const int> counts, Of& of);
};

/// Rows that are processed together, with their exact scores. Matrices are [rows, rows.stride].
struct CudaChunk {
  DeviceRows rows;
  DeviceKeyValues kv;
  QueryParts queries;
  ScoreTransform transform;
  std::int64_t num_keys = 0;  ///< on the device, of all KV heads
  const float* exact = nullptr;
  const float* exact_low = nullptr;           ///< score in double minus `exact`; null for long rows (low_scores.cuh)
  const float* exact_max = nullptr;           ///< [rows]
  const RowOrder* exact_order = nullptr;      ///< of all visible tokens; null if no selector needs it
  std::span<const LayerEstimates> estimates;  ///< of the layer, from files; host memory that outlives the chunk
  std::int64_t num_queries = 0;               ///< of the layer
  int layer = 0;                              ///< index within the model
  int layer_kv_heads = 0;                     ///< KV heads of the layer
  int first_kv_head = 0;                      ///< index within the layer of the first KV head on the device

  /// [layer_kv_heads] on the device: largest |k| and |v| of the layer; null unless a selector asks (needs_amax).
  const float *key_amax = nullptr, *value_amax = nullptr;

  std::span<const RowBatch> batches;  ///< host copies, like the three spans below
  std::span<const KeyOrigin> origins;
  std::span<const int> visible, query;  ///< [rows]
  /// [rows / group] Selector::setting_shift() of the (query, KV head): added to each setting. Empty: none.
  std::span<const double> setting_shift{};

  DeviceArena* arena = nullptr;
  Uploads* uploads = nullptr;
  cudaStream_t stream = nullptr;

  template <class T>
  T* take(std::size_t count) const {
    return arena->take<T>(count);
  }
  /// A [rows, stride] matrix.
  template <class T>
  T* take_rows() const {
    return arena->take<T>(static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(rows.stride));
  }
  /// A view of such a matrix.
  template <class T>
  DeviceMatrix<T> by_tokens(T* matrix) const {
    return {matrix, rows.stride};
  }
  /// A view of the visible tokens of each row.
  RowValues visible_values(const float* matrix) const {
    return {by_tokens(matrix), rows.visible, rows.num_rows, rows.max_length};
  }
  /// A view of the first counts.host[r] tokens of each row.
  RowValues values(const float* matrix, const RowCounts& counts) const {
    return {by_tokens(matrix), counts.device, rows.num_rows, counts.max};
  }
  /// Allocates rows of counts.host[r] items each.
  template <class T>
  RaggedRows<T> take_ragged(const RowCounts& counts) const;
  /// A matrix for ScoreTargets::low if the rows are short enough to need it, else null.
  float* take_low() const { return exact_low == nullptr ? nullptr : take_rows<float>(); }
  /// A matrix of levels, zeroed after the end of each row because kernels read eight levels at a time.
  Level* take_levels() const;
  template <class T>
  const T* upload(const std::vector<T>& values) const {
    return uploads->put(std::span<const T>(values), *arena, stream);
  }
};

template <class OfVisible>
RowCounts::RowCounts(const CudaChunk& chunk, OfVisible&& of_visible) {
  fill(chunk, chunk.visible, of_visible);
}

template <class Of>
void RowCounts::fill(const CudaChunk& chunk, std::span<const int> counts, Of& of) {
  for (int count : counts) {
    host.push_back(static_cast<int>(of(static_cast<std::int64_t>(count))));
    if (host.back() > max) max = host.back();
  }
  device = chunk.upload(host);
}

template <class T>
RaggedRows<T> CudaChunk::take_ragged(const RowCounts& counts) const {
  const std::size_t elements = static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(counts.max);
  return {{take<T>(elements), counts.max}, counts.device, rows.num_rows, counts.max};
}

/// query_settings() where KV heads shift the settings: with an entry for each (query, KV head) of the chunk.
template <class T, class OfSetting>
QuerySettings<T> shifted_settings(const CudaChunk& chunk, std::span<const AscendingGrid> grids,
                                  OfSetting&& of_setting) {
  const auto group = static_cast<std::size_t>(chunk.rows.group);
  std::vector<T> values;
  std::vector<int> entry;  // of each row
  for (std::size_t r = 0; r < chunk.query.size(); ++r) {
    entry.push_back(static_cast<int>(r / group));
    if (r % group != 0) continue;
    for (const double value : grids[static_cast<std::size_t>(chunk.query[r])].values)
      values.push_back(of_setting(value + chunk.setting_shift[r / group], static_cast<std::int64_t>(chunk.visible[r])));
  }
  return {chunk.upload(values), static_cast<int>(grids.front().values.size()), chunk.upload(entry)};
}

/// of_setting(value, visible) for each query of the layer and each value of its ascending grid.
template <class T, class OfSetting>
QuerySettings<T> query_settings(const CudaChunk& chunk, std::span<const AscendingGrid> grids, OfSetting&& of_setting) {
  if (!chunk.setting_shift.empty()) return shifted_settings<T>(chunk, grids, of_setting);
  const std::size_t settings = grids.front().values.size();
  std::vector<T> values(grids.size() * settings);
  for (std::size_t r = 0; r < chunk.query.size(); ++r) {
    const auto n = static_cast<std::size_t>(chunk.query[r]);
    for (std::size_t i = 0; i < settings; ++i)
      values[n * settings + i] = of_setting(grids[n].values[i], static_cast<std::int64_t>(chunk.visible[r]));
  }
  return {chunk.upload(values), static_cast<int>(settings), chunk.rows.query};
}

/// The result of a selector for a chunk. Its pointers point into the chunk's arena.
struct CudaSelection {
  // -- estimate
  const float* estimate = nullptr;      ///< s^ [rows, stride]; null: the selector has none
  const float* estimate_low = nullptr;  ///< double estimate minus `estimate`, if known; else null
  RowCounts covered;                    ///< the estimate covers tokens 0 .. covered-1 of a row
  bool covers_all = true;
  RowValues entries;  ///< s^ per entry of `entry_width` tokens, set if entry_width > 1
  int entry_width = 1;
  RowOrder entry_order;  ///< of the entries (of the covered tokens if entry_width is 1), if the selector sorted them

  // -- rule
  const Level* levels = nullptr;  ///< [rows, stride] after the GQA policy; null: every token at level 0
  CountedOrder level_order;       ///< see SweepView::order; for rules that rank tokens; lives as long as the levels

  // -- scorer
  const float* read_scores = nullptr;    ///< s'; null: the exact scores
  const float2* value_groups = nullptr;  ///< see KiviValues; null: values are exact
  KiviQuantizer value_quantizer;
  MadeTokens made_values;                       ///< read in place of exact values
  RowCounts num_approximate;                    ///< values 0 .. n-1 of a row are approximate
  DeviceMatrix<const double> mean_value_share;  ///< [rows, S] a of o = a y + (1 - a) mean(v); null: o = y

  // -- bytes read, and the selector's own metrics
  std::vector<IoCost> io;          ///< [rows / group]
  const int* base_kept = nullptr;  ///< [rows / group] tokens that cost bytes_per_base each, in addition to `io`
  double bytes_per_base = 0;
  std::vector<const float*> own_metrics;  ///< [Selector::own_metrics()], each [rows] or [rows, S ascending settings]
};

/// Every token at level 0 with exact reads: the result of `exact`, and of any selector in its dense layers.
/// Defined in exact_cuda.cpp.
void cuda_keep_all(const CudaChunk& chunk, CudaSelection& out);

/// of_visible(number of visible keys) for each group of rows, that is for each (query, KV head).
template <class OfVisible>
std::vector<IoCost> group_costs(const CudaChunk& chunk, OfVisible&& of_visible) {
  std::vector<IoCost> costs;
  for (std::size_t r = 0; r < chunk.visible.size(); r += static_cast<std::size_t>(chunk.rows.group))
    costs.push_back(of_visible(static_cast<std::int64_t>(chunk.visible[r])));
  return costs;
}

/// The chunk's batches, split wherever of_row(row) changes. `params` of each is its index.
template <class OfRow>
std::vector<RowBatch> cut_batches(const CudaChunk& chunk, OfRow&& of_row) {
  std::vector<RowBatch> batches;
  for (const RowBatch& batch : chunk.batches)
    for (int row = batch.first_row; row < batch.first_row + batch.num_rows; ++row) {
      if (row == batch.first_row || of_row(row) != of_row(row - 1))
        batches.push_back({.first_row = row,
                           .num_rows = 0,
                           .length = 0,
                           .origin = batch.origin,
                           .params = static_cast<int>(batches.size())});
      ++batches.back().num_rows;
      batches.back().length = std::max(batches.back().length, chunk.visible[static_cast<std::size_t>(row)]);
    }
  return batches;
}

/// The chunk's rows, split into `batches`.
inline DeviceRows in_batches(const CudaChunk& chunk, const std::vector<RowBatch>& batches) {
  DeviceRows rows = chunk.rows;
  rows.batches = chunk.upload(batches);
  rows.num_batches = static_cast<int>(batches.size());
  rows.max_batch_rows = 0;
  for (const RowBatch& batch : batches) rows.max_batch_rows = std::max(rows.max_batch_rows, batch.num_rows);
  return rows;
}

/// Bytes of a dense 16-bit read of one token's key and value.
inline double dense_token_bytes(const DeviceKeyValues& kv) { return dense_token_bytes(kv.shape()); }

}  // namespace attest
