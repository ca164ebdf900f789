#include <cmath>

#include "analysis/cuda/cuda_block_ranks.h"
#include "analysis/cuda/cuda_chunk_study.h"
#include "analysis/layer/kv_head_batches.h"
#include "kernels/attention/mean_value_cuda.h"
#include "kernels/attention/query_parts_cuda.h"
#include "kernels/attention/setting_outputs_cuda.h"
#include "kernels/rank/rank_correlation_cuda.h"
#include "kernels/selectors/cuda_registry.h"

namespace attest {
namespace {

/// Of each query of the layer, whatever heads the chunk holds.
std::vector<AscendingGrid> ascending_grids(const AttentionLayer& layer, std::span<const Setting> grid) {
  std::vector<AscendingGrid> grids;
  for (std::int64_t position : layer.query_positions)
    grids.push_back(ascending(grid, position + 1 - first_visible_key(layer, position)));
  return grids;
}

// Bytes that stages cannot do without.
double cells(const CudaChunk& chunk) {
  double sum = 0;
  for (int visible : chunk.visible) sum += visible;
  return sum;
}
double token_bytes(const CudaChunk& chunk, int channels) {
  double tokens = 0;
  for (const KeyOrigin& origin : chunk.origins) tokens += origin.length;
  return tokens * channels * static_cast<double>(size_of(chunk.kv.type));
}
double key_bytes(const CudaChunk& chunk) { return token_bytes(chunk, chunk.kv.head_dim); }
double value_bytes(const CudaChunk& chunk) { return token_bytes(chunk, chunk.kv.value_dim); }

}  // namespace

/// What every selector is compared with.
struct CudaChunkStudy::ExactSide {
  RowStatistics statistics;
  DeviceOutputs outputs;
  DeviceSpans spans;
  const Ranks* ranks = nullptr;  // of all visible tokens, where anyone needs them
};

/// Centred ranks of the exact scores among the covered tokens, and of their maxima over blocks.
struct CudaChunkStudy::Ranks {
  RowOrder order;
  int* tokens = nullptr;  // [rows, stride]
  CudaBlockRanks blocks;
};

CudaChunkStudy::CudaChunkStudy(const Setup& setup) : setup_(setup) {}

CudaChunk CudaChunkStudy::make_chunk(const RowTables& tables) {
  const AttentionLayer& layer = setup_.layer;
  CudaChunk chunk;
  chunk.arena = &setup_.arena;
  chunk.uploads = &setup_.uploads;
  chunk.stream = setup_.stream;
  chunk.rows = {.num_rows = static_cast<int>(tables.visible.size()),
                .num_batches = static_cast<int>(tables.batches.size()),
                .num_origins = static_cast<int>(tables.origins.size()),
                .group = layer.shape.group(),
                .max_length = tables.max_length,
                .longest = longest_row(layer),
                .max_batch_rows = tables.max_batch_rows,
                .stride = (static_cast<std::int64_t>(tables.max_length) + kTileTokens - 1) / kTileTokens * kTileTokens,
                .batches = chunk.upload(tables.batches),
                .origins = chunk.upload(tables.origins),
                .visible = chunk.upload(tables.visible),
                .origin = chunk.upload(tables.origin),
                .query = chunk.upload(tables.query),
                .cell = chunk.upload(tables.cell)};
  chunk.kv = {.type = layer.element_type,
              .keys = setup_.inputs.k,
              .values = setup_.inputs.v,
              .head_dim = layer.shape.head_dim,
              .value_dim = layer.shape.value_dim,
              .tokens = layer.num_tokens,
              .scale = static_cast<float>(layer.softmax_scale),
              .softcap = static_cast<float>(layer.logit_softcap)};
  chunk.transform = {layer.softmax_scale, layer.logit_softcap};
  chunk.num_keys = setup_.inputs.heads.count * layer.num_tokens;
  chunk.layer = layer.layer;
  chunk.first_kv_head = setup_.inputs.heads.first;
  chunk.batches = tables.batches;
  chunk.origins = tables.origins;
  chunk.visible = tables.visible;
  chunk.query = tables.query;
  const std::size_t elements = tables.visible.size() * static_cast<std::size_t>(padded_channels(chunk.kv.head_dim));
  chunk.queries =
      split_queries(chunk.rows, chunk.kv.type, setup_.inputs.q, chunk.kv.head_dim,
                    chunk.take<std::uint16_t>(elements * static_cast<std::size_t>(num_query_parts(chunk.kv.type))),
                    chunk.take<float>(elements), chunk.stream);
  return chunk;
}

CudaChunkStudy::ExactSide CudaChunkStudy::attend_exactly(CudaChunk& chunk) {
  const DeviceRows& rows = chunk.rows;
  const auto num_rows = static_cast<std::size_t>(rows.num_rows);
  ExactSide exact;
  exact.statistics = {chunk.take<float>(num_rows), chunk.take<double>(num_rows), chunk.take<double>(num_rows)};
  exact.outputs = {chunk.take<float>(num_rows * static_cast<std::size_t>(chunk.kv.value_dim)),
                   chunk.take<double>(num_rows)};
  const std::vector<int2> spans = disjoint_spans(setup_.layer);
  exact.spans = {chunk.upload(spans), static_cast<int>(spans.size())};
  auto* scores = chunk.take_rows<float>();
  float* low = rows.longest <= kShortRow ? chunk.take_rows<float>() : nullptr;
  {
    const StageClock::Stage stage(setup_.clock, "scores", chunk.stream, key_bytes(chunk) + 4 * cells(chunk));
    exact_scores(rows, chunk.kv, chunk.queries, scores, low, chunk.stream);
  }
  chunk.exact = scores;
  chunk.exact_low = low;
  chunk.exact_max = exact.statistics.max;
  {
    const StageClock::Stage stage(setup_.clock, "metrics", chunk.stream, 4 * cells(chunk));
    score_statistics(rows, scores, exact.spans, exact.statistics, setup_.results.scores(), chunk.stream);
  }
  const StageClock::Stage stage(setup_.clock, "sweep", chunk.stream, value_bytes(chunk) + 4 * cells(chunk));
  exact_outputs(rows, chunk.kv, scores, {exact.statistics.max, exact.statistics.weight}, exact.outputs, *chunk.arena,
                chunk.stream);
  return exact;
}

CudaChunkStudy::Ranks CudaChunkStudy::rank_all(const CudaChunk& chunk) {
  const DeviceRows& rows = chunk.rows;
  Ranks ranks;
  ranks.tokens = chunk.take_rows<int>();
  ranks.order = rank_rows({chunk.exact, rows.stride, rows.visible, rows.num_rows, rows.max_length}, ranks.tokens,
                          *chunk.arena, chunk.stream);
  ranks.blocks = CudaBlockRanks(chunk, RowCounts(chunk, [](std::int64_t visible) { return visible; }));
  return ranks;
}

CudaChunkStudy::Ranks CudaChunkStudy::rank_covered(const CudaChunk& chunk, const RowCounts& covered) {
  const DeviceRows& rows = chunk.rows;
  const RowValues all{chunk.exact, rows.stride, rows.visible, rows.num_rows, rows.max_length};
  Ranks ranks;
  ranks.tokens = chunk.take_rows<int>();
  ranks.order = order_below(*chunk.exact_order, all, covered.device, *chunk.arena, chunk.stream);
  centred_ranks({chunk.exact, rows.stride, covered.device, rows.num_rows, covered.max}, ranks.order, ranks.tokens,
                chunk.stream);
  ranks.blocks = CudaBlockRanks(chunk, covered);
  return ranks;
}

void CudaChunkStudy::enqueue(std::span<const QueryGroup> groups) {
  const DeviceArena::Scope scope(setup_.arena);
  const RowTables tables = row_tables(setup_.layer, setup_.inputs.heads, groups);
  CudaChunk chunk = make_chunk(tables);
  ExactSide exact = attend_exactly(chunk);

  bool needs_order = false, needs_ranks = false;
  for (std::size_t s = 0; s < setup_.selectors.size(); ++s) {
    if (setup_.results.dense(s)) continue;
    const bool estimates = setup_.options.selectors[s].selector->has_estimate();
    needs_ranks = needs_ranks || estimates;
    needs_order = needs_order || estimates || setup_.selectors[s]->needs_exact_order();
  }
  Ranks ranks;
  if (needs_order) {
    const StageClock::Stage stage(setup_.clock, "ranking", chunk.stream, 8 * cells(chunk));
    if (needs_ranks) {
      ranks = rank_all(chunk);
      exact.ranks = &ranks;
    } else {
      ranks.order =
          sort_rows({chunk.exact, chunk.rows.stride, chunk.rows.visible, chunk.rows.num_rows, chunk.rows.max_length},
                    *chunk.arena, chunk.stream);
    }
    chunk.exact_order = &ranks.order;
  }
  for (std::size_t s = 0; s < setup_.selectors.size(); ++s) {
    const StudySelector& study = setup_.options.selectors[s];
    if (study.selector->monotone() || setup_.results.dense(s)) {
      run_selector(chunk, exact, s, study.grid, 0);
    } else {
      for (std::size_t i = 0; i < study.grid.size(); ++i)
        run_selector(chunk, exact, s, std::span(study.grid).subspan(i, 1), i);
    }
  }
}

SettingPlaces CudaChunkStudy::places(const CudaChunk& chunk, std::span<const AscendingGrid> grids, std::size_t s,
                                     std::size_t first_setting) {
  std::vector<int> places;
  for (const AscendingGrid& grid : grids)
    for (int given : grid.given_index) places.push_back(static_cast<int>(first_setting) + given);
  return {chunk.upload(places), static_cast<int>(grids.front().values.size()),
          static_cast<int>(setup_.options.selectors[s].grid.size())};
}

void CudaChunkStudy::run_selector(const CudaChunk& chunk, const ExactSide& exact, std::size_t s,
                                  std::span<const Setting> grid, std::size_t first_setting) {
  const DeviceArena::Scope scope(setup_.arena);
  const std::vector<AscendingGrid> grids = ascending_grids(setup_.layer, grid);
  const SettingPlaces at = places(chunk, grids, s, first_setting);
  CudaSelection selection;
  {
    StageClock::Stage stage(setup_.clock, "select " + setup_.options.selectors[s].selector->name(), chunk.stream, 0);
    if (setup_.results.dense(s))
      cuda_keep_all(chunk, selection);
    else
      setup_.selectors[s]->select(chunk, grids, selection);
    const bool scans = selection.estimate != nullptr && selection.estimate != chunk.exact;
    const int written = (scans ? 4 : 0) +
                        (selection.read_scores != nullptr && selection.read_scores != selection.estimate ? 4 : 0) +
                        (selection.levels != nullptr ? static_cast<int>(sizeof(Level)) : 0);
    stage.add_bytes((scans ? key_bytes(chunk) : 0) + written * cells(chunk));
  }
  measure_output(chunk, exact, selection, s, at);
  measure_kept_set(chunk, exact, selection, s, grids, at);
  if (selection.estimate != nullptr && first_setting == 0) measure_estimate(chunk, exact, selection, s);
  const Selector& selector = *setup_.options.selectors[s].selector;
  const std::vector<std::string> of_rows = selector.row_metrics(), of_settings = selector.setting_metrics();
  for (std::size_t m = 0; m < selection.row_metrics.size(); ++m)
    place_row_values(chunk.rows, selection.row_metrics[m], setup_.results.array(s, of_rows[m]), chunk.stream);
  for (std::size_t m = 0; m < selection.setting_metrics.size(); ++m)
    place_setting_values(chunk.rows, selection.setting_metrics[m], at, setup_.results.array(s, of_settings[m]),
                         chunk.stream);
}

void CudaChunkStudy::measure_output(const CudaChunk& chunk, const ExactSide& exact, const CudaSelection& selection,
                                    std::size_t s, const SettingPlaces& at) {
  const DeviceArena::Scope scope(setup_.arena);
  const bool as_exact = selection.levels == nullptr && selection.read_scores == nullptr &&
                        selection.value_groups == nullptr && selection.mean_value_share == nullptr && at.count == 1;
  DeviceOutputs outputs = exact.outputs;
  if (!as_exact) {
    const int read = 4 + (selection.levels != nullptr ? static_cast<int>(sizeof(Level)) : 0);
    const StageClock::Stage stage(setup_.clock, "sweep", chunk.stream, value_bytes(chunk) + read * cells(chunk));
    const std::size_t count = static_cast<std::size_t>(chunk.rows.num_rows) * static_cast<std::size_t>(at.count);
    outputs = {chunk.take<float>(count * static_cast<std::size_t>(chunk.kv.value_dim)), chunk.take<double>(count)};
    setting_outputs(
        chunk.rows, chunk.kv, selection.read_scores == nullptr ? chunk.exact : selection.read_scores,
        {selection.levels, at.count, selection.level_run, selection.level_order, selection.level_order_counts},
        {selection.value_groups, selection.value_quantizer, selection.num_approximate.device}, outputs, setup_.arena,
        chunk.stream);
    if (selection.mean_value_share != nullptr)
      blend_mean_values(chunk.rows, chunk.kv, selection.mean_value_share, at.count, outputs.output, setup_.arena,
                        chunk.stream);
  }
  const StageClock::Stage stage(setup_.clock, "metrics", chunk.stream, 0);
  output_fidelity(chunk.rows, outputs, exact.outputs, chunk.kv.value_dim, at, setup_.results.output_fidelity(s),
                  chunk.stream);
}

void CudaChunkStudy::measure_kept_set(const CudaChunk& chunk, const ExactSide& exact, const CudaSelection& selection,
                                      std::size_t s, std::span<const AscendingGrid> grids, const SettingPlaces& at) {
  const int read = selection.levels != nullptr ? 4 + static_cast<int>(sizeof(Level)) : 0;
  const StageClock::Stage stage(setup_.clock, "metrics", chunk.stream, read * cells(chunk));
  const Selector& selector = *setup_.options.selectors[s].selector;
  const auto deltas = query_settings<double>(chunk, grids, [&](double setting, std::int64_t) {
    const double delta = selector.natural_delta(setting, chunk.transform);
    return std::isnan(delta) ? setup_.options.salient_delta : delta;
  });
  const KeptSetInput in{chunk.exact, selection.levels, exact.statistics, deltas.values, setup_.options.salient_delta,
                        exact.spans};
  kept_set(chunk.rows, in, at, setup_.results.kept_set(s), chunk.stream);
  const DeviceIoCost cost{chunk.upload(selection.io), selection.base_kept, selection.bytes_per_base,
                          dense_token_bytes(chunk.kv)};
  io_ratio(chunk.rows, selection.levels, cost, at, setup_.results.array(s, "io_ratio"), chunk.stream);
}

void CudaChunkStudy::measure_estimate(const CudaChunk& chunk, const ExactSide& exact, const CudaSelection& selection,
                                      std::size_t s) {
  const DeviceArena::Scope scope(setup_.arena);
  const DeviceRows& rows = chunk.rows;
  {
    const StageClock::Stage stage(setup_.clock, "metrics", chunk.stream, 8 * cells(chunk));
    const double* lambdas = chunk.upload(setup_.options.lambdas);
    estimate_moments(rows, selection.estimate, chunk.exact, selection.covered.device, lambdas,
                     static_cast<int>(setup_.options.lambdas.size()), setup_.results.estimate(s), chunk.stream);
  }
  const StageClock::Stage stage(setup_.clock, "ranking", chunk.stream, 8 * cells(chunk));
  const Ranks ranks = selection.covers_all ? *exact.ranks : rank_covered(chunk, selection.covered);
  float* rho = setup_.results.array(s, "spearman");
  EntryEstimate estimate{.entries = selection.entries,
                         .order = selection.entry_order,
                         .width = selection.entry_width,
                         .items = selection.covered.device};
  if (selection.entry_width == 1)
    estimate.entries = {selection.estimate, rows.stride, selection.covered.device, rows.num_rows,
                        selection.covered.max};
  if (selection.estimate == chunk.exact) estimate.order = ranks.order;
  if (estimate.order.items == nullptr && selection.entry_width == 1) {
    spearman_of_values(estimate.entries, ranks.tokens, rows.stride, rho, rows.cell, setup_.arena, chunk.stream);
  } else {
    if (estimate.order.items == nullptr) estimate.order = sort_rows(estimate.entries, setup_.arena, chunk.stream);
    spearman_rows(estimate, ranks.tokens, rows.stride, rho, rows.cell, chunk.stream);
  }
  ranks.blocks.correlate(chunk, selection.estimate, selection.estimate_low, setup_.results.array(s, "spearman_block16"),
                         setup_.results.array(s, "spearman_block128"));
}

}  // namespace attest
