// Makes chunks of a layer and enqueues what every selector's attention takes.
#include "analysis/cuda/cuda_layer_chunk.h"

#include "kernels/attention/query_parts_cuda.h"
#include "kernels/attention/scores_cuda.h"
#include "kernels/kv_formats/amax_cuda.h"

namespace attest {

CudaChunk layer_chunk(const AttentionLayer& layer, const DeviceInputs& inputs, const RowTables& tables,
                      DeviceArena& arena, Uploads& uploads, cudaStream_t stream) {
  CudaChunk chunk;
  chunk.arena = &arena;
  chunk.uploads = &uploads;
  chunk.stream = stream;
  const auto [batches, origins, visible, origin, query, cell, sink] =
      uploads.put_all(arena, stream, tables.batches, tables.origins, tables.visible, tables.origin, tables.query,
                      tables.cell, tables.sink);
  chunk.rows = {.num_rows = static_cast<int>(tables.visible.size()),
                .num_batches = static_cast<int>(tables.batches.size()),
                .num_origins = static_cast<int>(tables.origins.size()),
                .group = layer.shape.group(),
                .max_length = tables.max_length,
                .layer_max_length = longest_row(layer),
                .max_batch_rows = tables.max_batch_rows,
                .stride = (static_cast<std::int64_t>(tables.max_length) + kTileTokens - 1) / kTileTokens * kTileTokens,
                .batches = batches,
                .origins = origins,
                .visible = visible,
                .origin = origin,
                .query = query,
                .cell = cell,
                .sink = tables.sink.empty() ? nullptr : sink};
  chunk.kv = {.type = layer.element_type,
              .keys = inputs.k,
              .values = inputs.v,
              .head_dim = layer.shape.head_dim,
              .value_dim = layer.shape.value_dim,
              .tokens = layer.num_tokens,
              .scale = static_cast<float>(layer.softmax_scale),
              .softcap = static_cast<float>(layer.logit_softcap),
              .values_in_keys = layer.shape.values_in_keys != 0};
  chunk.transform = {layer.softmax_scale, layer.logit_softcap};
  chunk.num_keys = inputs.heads.count * layer.num_tokens;
  chunk.estimates = layer.estimates;
  chunk.num_queries = layer.num_queries();
  chunk.layer = layer.layer;
  chunk.layer_kv_heads = layer.shape.num_kv_heads;
  chunk.key_amax = inputs.key_amax;
  chunk.value_amax = inputs.value_amax;
  chunk.first_kv_head = inputs.heads.first;
  chunk.batches = tables.batches;
  chunk.origins = tables.origins;
  chunk.visible = tables.visible;
  chunk.query = tables.query;
  chunk.queries = cuda_query_parts(chunk.rows, chunk.kv.type, inputs.q, chunk.kv.head_dim, arena, stream);
  return chunk;
}

void cuda_layer_amax(const AttentionLayer& layer, const DeviceInputs& inputs, float* amax, cudaStream_t stream) {
  const AttentionShape& shape = layer.shape;
  cuda_max_magnitudes({layer.element_type, inputs.k, layer.num_tokens, shape.head_dim}, shape.num_kv_heads, amax,
                      stream);
  cuda_max_magnitudes({layer.element_type, inputs.v, layer.num_tokens, shape.value_dim}, shape.num_kv_heads,
                      amax + shape.num_kv_heads, stream);
}

void cuda_exact_scores(CudaChunk& chunk, bool with_low) {
  auto* scores = chunk.take_rows<float>();
  float* low = with_low && chunk.rows.layer_max_length <= kShortRow ? chunk.take_rows<float>() : nullptr;
  cuda_scores(chunk.rows, chunk.kv, chunk.queries, chunk.by_tokens(scores), chunk.by_tokens(low), chunk.stream);
  chunk.exact = scores;
  chunk.exact_low = low;
}

std::vector<AscendingGrid> layer_grids(const AttentionLayer& layer, const Selector& selector,
                                       std::span<const Setting> grid) {
  std::vector<AscendingGrid> grids;
  for (std::int64_t position : layer.query_positions)
    grids.push_back(ascending(selector, grid, position + 1 - layer.first_visible_key(position)));
  return grids;
}

std::vector<double> setting_shifts(const Selector& selector, int layer, std::span<const QueryGroup> groups) {
  std::vector<double> shifts;
  if (selector.settings_file() != nullptr)
    for (const QueryGroup& place : groups) shifts.push_back(selector.setting_shift(layer, place.kv_head));
  return shifts;
}

void cuda_check_selection(const CudaChunk& chunk, const Selector& selector, const CudaSelection& selection,
                          std::size_t index, OverflowKey* first) {
  if (selection.estimate != nullptr && selection.estimate != chunk.exact)
    cuda_find_overflow(chunk, chunk.values(selection.estimate, selection.covered), lowest_estimate(selector),
                       {.step = OverflowStep::estimate, .selector = index}, first);
  if (selection.read_scores != nullptr && selection.read_scores != selection.estimate)
    cuda_find_overflow(chunk, chunk.visible_values(selection.read_scores), -kLargestScore,
                       {.step = OverflowStep::read_score, .selector = index}, first);
}

}  // namespace attest
