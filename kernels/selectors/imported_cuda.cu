// imported on the device, where estimates are float32. Method: imported.cpp.
#include "kernels/device/cuda_check.h"
#include "kernels/device/fill_rows.cuh"
#include "kernels/rank/entry_levels_cuda.h"
#include "kernels/rank/group_policy_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/imported_options.h"

namespace attest {
namespace {

constexpr int kImportedThreads = 256;

/// Estimates on the device: values [queries of the layer, num_heads, num_entries], heads from first_head on.
template <class T>
struct Estimates {
  const T* values;
  int first_head, num_heads, query_heads_per_estimate, num_query_heads;
  std::int64_t num_entries;

  __device__ const T* of(const DeviceRows& rows, int row) const {
    const int head = rows.cell[row] % num_query_heads / query_heads_per_estimate - first_head;
    return values + (static_cast<std::int64_t>(rows.query[row]) * num_heads + head) * num_entries;
  }
};

/// The entry that contains a row's first key.
__device__ int first_entry(const DeviceRows& rows, int row, int width) {
  return rows.origins[rows.origin[row]].first_key / width;
}

template <class T>
__global__ void entries_kernel(DeviceRows rows, Estimates<T> estimates, int width, RaggedRows<float> out) {
  const int i = blockIdx.x * kImportedThreads + static_cast<int>(threadIdx.x), row = blockIdx.y;
  if (i >= out.counts[row]) return;
  out.row(row)[i] = static_cast<float>(estimates.of(rows, row)[first_entry(rows, row, width) + i]);
}

__global__ void row_max_kernel(RowValues values, RowOrder order, float* largest) {
  const int row = blockIdx.x * kImportedThreads + static_cast<int>(threadIdx.x);
  if (row < values.rows) largest[row] = values.row(row)[order(row, 0)];
}

/// Gives each token the value of its entry.
template <class T>
struct EntryValue {
  DeviceRows rows;
  DeviceMatrix<const T> entries;
  int width;
  __device__ T operator()(int row, int token) const {
    const int first_key = rows.origins[rows.origin[row]].first_key;
    return entries.row(row)[(first_key + token) / width - first_key / width];
  }
};

struct TokenLevel {
  EntryValue<Level> entry_value;
  int sink, local;
  __device__ Level operator()(int row, int token) const {
    const bool always = token < sink || token >= entry_value.rows.visible[row] - local;
    return always ? Level{0} : entry_value(row, token);
  }
};

class CudaImported final : public CudaSelector, ImportedOptions {
 public:
  explicit CudaImported(const ImportedOptions& options) : ImportedOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    auto* estimate = chunk.take_rows<float>();
    auto* levels = chunk.take_levels();
    out.estimate = estimate;
    out.levels = levels;
    const RaggedRows<float> values = find_entries(chunk, estimate);
    const RowOrder order = cuda_sort_descending(values, *chunk.arena, chunk.stream);
    if (source_.width == 1) {
      out.entry_order = order;
      // Levels ascend along the order of the estimates unless sink or local tokens are added or heads share their sets.
      if (rule_ != Rule::topdelta && sink_ == 0 && local_ == 0 && !union_) out.level_order = {order, rows.visible};
    } else {
      fill_rows(rows, EntryValue<float>{rows, values.items, source_.width}, estimate, chunk.stream);
      if (begins_with_entries(chunk)) {
        out.entries = values;
        out.entry_width = source_.width;
        out.entry_order = order;
      }
    }
    out.io = group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv.shape(), visible); });

    const DeviceArena::Scope scope(*chunk.arena);
    const DeviceMatrix<Level> entry_levels{
        chunk.take<Level>(static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(values.max_count)),
        values.max_count};
    rule(chunk, grids, values, order, entry_levels);
    const TokenLevel level{{rows, entry_levels, source_.width}, sink_, local_};
    fill_rows(rows, level, levels, chunk.stream);
    if (union_)
      cuda_group_minimum_levels({chunk.by_tokens(levels), rows.visible, rows.num_rows, rows.max_length}, rows.group,
                                chunk.stream);
  }

 private:
  /// Whether every row's first key is the first token of an entry, so that entries are aligned with the row.
  bool begins_with_entries(const CudaChunk& chunk) const {
    return std::ranges::all_of(chunk.origins,
                               [&](const KeyOrigin& origin) { return origin.first_key % source_.width == 0; });
  }

  /// The entries that cover each row's visible keys. If the entries are tokens, they are stored in `estimate`.
  RaggedRows<float> find_entries(const CudaChunk& chunk, float* estimate) const {
    const DeviceRows& rows = chunk.rows;
    std::vector<int> counts(chunk.visible.size());
    for (const RowBatch& batch : chunk.batches)
      for (int row = batch.first_row; row < batch.first_row + batch.num_rows; ++row) {
        const KeyOrigin& origin = chunk.origins[static_cast<std::size_t>(batch.origin)];
        const auto r = static_cast<std::size_t>(row);
        counts[r] = static_cast<int>(entries(origin.first_key, chunk.visible[r]).count);
      }
    const int maximum = *std::ranges::max_element(counts);
    RaggedRows<float> values{chunk.by_tokens(estimate), chunk.upload(counts), rows.num_rows, maximum};
    if (source_.width > 1)
      values.items = {
          chunk.take<float>(static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(values.max_count)),
          maximum};
    const LayerEstimates& estimates = find(chunk.estimates, source_);
    estimates.in_double ? copy_entries<double>(chunk, estimates, values)
                        : copy_entries<float>(chunk, estimates, values);
    return values;
  }

  template <class T>
  void copy_entries(const CudaChunk& chunk, const LayerEstimates& from, const RaggedRows<float>& to) const {
    const DeviceArena::Scope scope(*chunk.arena);
    const DeviceRows& rows = chunk.rows;
    const auto kv_heads = static_cast<int>(chunk.num_keys / chunk.kv.tokens);
    const int first = chunk.first_kv_head * rows.group / from.query_heads_per_estimate,
              count = kv_heads * rows.group / from.query_heads_per_estimate;
    const std::size_t entry_bytes = static_cast<std::size_t>(from.num_entries) * sizeof(T),
                      pitch = static_cast<std::size_t>(from.num_heads) * entry_bytes,
                      width = static_cast<std::size_t>(count) * entry_bytes;
    T* values = chunk.take<T>(static_cast<std::size_t>(chunk.num_queries) * width / sizeof(T));
    ATTEST_CUDA(cudaMemcpy2DAsync(values, width, from.values.data() + static_cast<std::size_t>(first) * entry_bytes,
                                  pitch, width, static_cast<std::size_t>(chunk.num_queries), cudaMemcpyHostToDevice,
                                  chunk.stream));
    const Estimates<T> estimates{
        values,          first, count, from.query_heads_per_estimate, from.num_heads * from.query_heads_per_estimate,
        from.num_entries};
    const dim3 grid((to.max_count + kImportedThreads - 1) / kImportedThreads, rows.num_rows);
    entries_kernel<T><<<grid, kImportedThreads, 0, chunk.stream>>>(rows, estimates, source_.width, to);
    ATTEST_CUDA_LAUNCHED(entries_kernel);
  }

  void rule(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& values,
            const RowOrder& order, const DeviceMatrix<Level>& levels) const {
    switch (rule_) {
      case Rule::topk: {
        // `visible` only caps the number of kept entries. It is at least the number of entries, so the result is the
        // same.
        const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
          return static_cast<int>(kept_entries(budget, visible));
        });
        return cuda_top_n_levels(order, values, n, levels, chunk.stream);
      }
      case Rule::topp: {
        const auto shares = query_settings<double>(chunk, grids, [](double p, std::int64_t) { return p; });
        return cuda_top_p_levels(order, values, ItemMass::exponential, shares, levels, chunk.stream);
      }
      case Rule::topdelta: {
        auto* largest = chunk.take<float>(static_cast<std::size_t>(values.rows));
        row_max_kernel<<<(values.rows + kImportedThreads - 1) / kImportedThreads, kImportedThreads, 0, chunk.stream>>>(
            values, order, largest);
        ATTEST_CUDA_LAUNCHED(row_max_kernel);
        const auto deltas = query_settings<double>(chunk, grids, [](double delta, std::int64_t) { return delta; });
        return cuda_threshold_levels(values, largest, deltas, levels, chunk.stream);
      }
      case Rule::all:  // on the CPU alone
        return;
    }
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_imported(const ImportedOptions& options) {
  return std::make_shared<CudaImported>(options);
}

}  // namespace attest
