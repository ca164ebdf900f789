// The study of a chunk of rows on the device: exact attention, then each selector and its metrics.
#include <algorithm>
#include <cmath>

#include "analysis/cuda/cuda_chunk_study.h"
#include "analysis/cuda/cuda_overflow.h"
#include "analysis/cuda/cuda_placement.h"
#include "analysis/metrics/score_statistics.h"
#include "kernels/attention/mean_value_cuda.h"
#include "kernels/attention/query_parts_cuda.h"
#include "kernels/attention/scores_cuda.h"
#include "kernels/attention/setting_outputs_cuda.h"
#include "kernels/attention/sinks_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"

namespace attest {
namespace {

/// One ascending grid per query of the layer; all KV heads share them.
std::vector<AscendingGrid> ascending_grids(const AttentionLayer& layer, const Selector& selector,
                                           std::span<const Setting> grid) {
  std::vector<AscendingGrid> grids;
  for (std::int64_t position : layer.query_positions)
    grids.push_back(ascending(selector, grid, position + 1 - layer.first_visible_key(position)));
  return grids;
}

/// The CUDA functions that fill a selector's arrays, each listed once: metrics computed in one pass share a function.
/// Without an estimate, metrics that need one are skipped.
std::vector<decltype(SelectorFunctions::cuda)> passes_of(const SelectorLayout& layout, bool has_estimate) {
  std::vector<decltype(SelectorFunctions::cuda)> passes;
  for (const ResultArray& array : layout.arrays) {
    if (array.metric == nullptr || (array.metric->needs.estimate && !has_estimate)) continue;
    decltype(SelectorFunctions::cuda) pass = nullptr;
    if (const auto* of_selector = std::get_if<SelectorFunctions>(&array.metric->functions))
      pass = of_selector->cuda;
    else if (const auto* of_layer = std::get_if<LayerFunctions>(&array.metric->functions))
      pass = of_layer->cuda;
    else
      pass = std::get<SpanTokenFunctions>(array.metric->functions).cuda;
    if (std::ranges::find(passes, pass) == passes.end()) passes.push_back(pass);
  }
  return passes;
}

}  // namespace

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
                .layer_max_length = longest_row(layer),
                .max_batch_rows = tables.max_batch_rows,
                .stride = (static_cast<std::int64_t>(tables.max_length) + kTileTokens - 1) / kTileTokens * kTileTokens,
                .batches = chunk.upload(tables.batches),
                .origins = chunk.upload(tables.origins),
                .visible = chunk.upload(tables.visible),
                .origin = chunk.upload(tables.origin),
                .query = chunk.upload(tables.query),
                .cell = chunk.upload(tables.cell),
                .sink = tables.sink.empty() ? nullptr : chunk.upload(tables.sink)};
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
  chunk.estimates = layer.estimates;
  chunk.num_queries = layer.num_queries();
  chunk.layer = layer.layer;
  chunk.first_kv_head = setup_.inputs.heads.first;
  chunk.batches = tables.batches;
  chunk.origins = tables.origins;
  chunk.visible = tables.visible;
  chunk.query = tables.query;
  chunk.queries =
      cuda_query_parts(chunk.rows, chunk.kv.type, setup_.inputs.q, chunk.kv.head_dim, *chunk.arena, chunk.stream);
  return chunk;
}

CudaExactRows CudaChunkStudy::attend_exactly(CudaChunk& chunk) {
  const DeviceRows& rows = chunk.rows;
  const auto num_rows = static_cast<std::size_t>(rows.num_rows);
  CudaExactRows exact;
  exact.chunk = &chunk;
  exact.clock = &setup_.clock;
  exact.statistics = {chunk.take<float>(num_rows), chunk.take<double>(num_rows)};
  exact.outputs = take_outputs(rows, 1, chunk.kv.value_dim, *chunk.arena);
  const std::vector<int2> spans = disjoint_spans(setup_.layer);
  exact.spans = {chunk.upload(spans), static_cast<int>(spans.size())};
  auto* scores = chunk.take_rows<float>();
  float* low = rows.layer_max_length <= kShortRow ? chunk.take_rows<float>() : nullptr;
  {
    const StageClock::Stage stage(setup_.clock, "scores", chunk.stream, key_bytes(chunk) + 4 * row_tokens(chunk));
    cuda_scores(rows, chunk.kv, chunk.queries, chunk.by_tokens(scores), chunk.by_tokens(low), chunk.stream);
  }
  cuda_find_overflow(chunk, chunk.visible_values(scores), -kLargestScore, {.step = OverflowStep::score},
                     setup_.results.first_overflow());
  chunk.exact = scores;
  chunk.exact_low = low;
  chunk.exact_max = exact.statistics.max;
  const CudaCells cells = setup_.results.score_cells();
  cuda_score_statistics(exact, cells);  // runs first because it fills exact.statistics
  for (const ResultArray& array : setup_.results.layout().scores) {
    const auto pass = std::get<ScoreFunctions>(array.metric->functions).cuda;
    if (pass != cuda_score_statistics) pass(exact, cells);
  }
  const StageClock::Stage stage(setup_.clock, "sweep", chunk.stream, value_bytes(chunk) + 4 * row_tokens(chunk));
  cuda_exact_outputs(rows, chunk.kv, chunk.by_tokens(chunk.exact),
                     {{exact.statistics.max, 1}, {exact.statistics.weight, 1}}, exact.outputs, *chunk.arena,
                     chunk.stream);
  cuda_find_overflow(chunk, exact.outputs, {.step = OverflowStep::exact_output}, setup_.results.first_overflow());
  cuda_add_sinks(rows, exact.outputs, chunk.stream);
  return exact;
}

void CudaChunkStudy::enqueue(std::span<const QueryGroup> groups) {
  const DeviceArena::Scope scope(setup_.arena);
  const RowTables tables = row_tables(setup_.layer, setup_.inputs.heads, groups);
  CudaChunk chunk = make_chunk(tables);
  CudaExactRows exact = attend_exactly(chunk);

  bool needs_order = false, needs_ranks = false;
  for (std::size_t s = 0; s < setup_.selectors.size(); ++s) {
    if (is_dense(groups, s)) continue;
    const bool estimates = setup_.study.selectors[s].selector->has_estimate();
    needs_ranks = needs_ranks || estimates;
    needs_order = needs_order || estimates || setup_.selectors[s]->needs_exact_order();
  }
  CudaExactRanks ranks;
  if (needs_order) {
    const StageClock::Stage stage(setup_.clock, "ranking", chunk.stream, 8 * row_tokens(chunk));
    if (needs_ranks) {
      ranks = cuda_exact_ranks(chunk);
      exact.ranks = &ranks;
    } else {
      ranks.order = cuda_sort_descending(chunk.visible_values(chunk.exact), *chunk.arena, chunk.stream);
    }
    chunk.exact_order = &ranks.order;
  }
  for (std::size_t s = 0; s < setup_.selectors.size(); ++s) {
    const StudySelector& chosen = setup_.study.selectors[s];
    if (chosen.selector->monotone() || is_dense(groups, s)) {
      run_selector(exact, groups, s, chosen.grid, 0);
    } else {
      for (std::size_t i = 0; i < chosen.grid.size(); ++i)
        run_selector(exact, groups, s, std::span(chosen.grid).subspan(i, 1), i);
    }
  }
}

SettingOffsets CudaChunkStudy::setting_offsets(const CudaChunk& chunk, std::span<const AscendingGrid> grids,
                                               std::size_t s, std::size_t first_setting) {
  std::vector<int> places;
  for (const AscendingGrid& grid : grids)
    for (int given : grid.given_index) places.push_back(static_cast<int>(first_setting) + given);
  return {chunk.upload(places), static_cast<int>(grids.front().values.size()),
          static_cast<int>(setup_.study.selectors[s].grid.size())};
}

bool CudaChunkStudy::is_dense(std::span<const QueryGroup> groups, std::size_t s) const {
  return setup_.results.layout().selectors[s].dense_heads[static_cast<std::size_t>(groups.front().kv_head)];
}

void CudaChunkStudy::run_selector(const CudaExactRows& exact, std::span<const QueryGroup> groups, std::size_t s,
                                  std::span<const Setting> grid, std::size_t first_setting) {
  const DeviceArena::Scope scope(setup_.arena);
  const Selector& selector = *setup_.study.selectors[s].selector;
  std::vector<double> shifts;
  if (selector.settings_file() != nullptr)
    for (const QueryGroup& place : groups) shifts.push_back(selector.setting_shift(setup_.layer.layer, place.kv_head));
  CudaChunk chunk = *exact.chunk;
  chunk.setting_shift = shifts;
  const SelectorLayout& layout = setup_.results.layout().selectors[s];
  const std::vector<AscendingGrid> grids = ascending_grids(setup_.layer, selector, grid);
  CudaSelection selection;
  {
    StageClock::Stage stage(setup_.clock, "select " + selector.name(), chunk.stream, 0);
    if (is_dense(groups, s))
      cuda_keep_all(chunk, selection);
    else
      setup_.selectors[s]->select(chunk, grids, selection);
    const bool scans = selection.estimate != nullptr && selection.estimate != chunk.exact;
    const int written = (scans ? 4 : 0) +
                        (selection.read_scores != nullptr && selection.read_scores != selection.estimate ? 4 : 0) +
                        (selection.levels != nullptr ? static_cast<int>(sizeof(Level)) : 0);
    stage.add_bytes((scans ? key_bytes(chunk) : 0) + written * row_tokens(chunk));
  }
  OverflowKey* overflow = setup_.results.first_overflow();
  if (selection.estimate != nullptr && selection.estimate != chunk.exact)
    cuda_find_overflow(chunk, chunk.values(selection.estimate, selection.covered), lowest_estimate(selector),
                       {.step = OverflowStep::estimate, .selector = s}, overflow);
  if (selection.read_scores != nullptr && selection.read_scores != selection.estimate)
    cuda_find_overflow(chunk, chunk.visible_values(selection.read_scores), -kLargestScore,
                       {.step = OverflowStep::read_score, .selector = s}, overflow);
  CudaSelectorRows rows;
  rows.exact = &exact;
  rows.selection = &selection;
  rows.offsets = setting_offsets(chunk, grids, s, first_setting);
  rows.outputs = outputs(exact, selection, rows.offsets.count);
  cuda_find_overflow(chunk, rows.outputs, {.step = OverflowStep::output, .selector = s}, overflow);
  rows.salient_deltas = query_settings<double>(chunk, grids, [&](double setting, std::int64_t) {
    const double delta = selector.natural_delta(setting, chunk.transform);
    return std::isnan(delta) ? setup_.study.salient_delta : delta;
  });
  rows.fixed_salient_delta = setup_.study.salient_delta;
  rows.lambdas = &setup_.study.lambdas;
  const CudaCells cells = setup_.results.selector_cells(s);
  for (const auto pass : passes_of(layout, selection.estimate != nullptr && first_setting == 0)) pass(rows, cells);

  const std::span<const MetricInfo> own = selector.own_metrics();
  for (std::size_t m = 0; m < selection.own_metrics.size(); ++m) {
    if (own[m].axes == MetricAxes::query_head_setting)
      place_setting_values(chunk.rows, selection.own_metrics[m], rows.offsets, cells.of(own[m].name), chunk.stream);
    else
      place_row_values(chunk.rows, selection.own_metrics[m], cells.of(own[m].name), chunk.stream);
  }
}

DeviceOutputs CudaChunkStudy::outputs(const CudaExactRows& exact, const CudaSelection& selection, int num_settings) {
  const CudaChunk& chunk = *exact.chunk;
  const bool as_exact = selection.levels == nullptr && selection.read_scores == nullptr &&
                        selection.value_groups == nullptr && !selection.mean_value_share && num_settings == 1;
  if (as_exact) return exact.outputs;
  const int read = 4 + (selection.levels != nullptr ? static_cast<int>(sizeof(Level)) : 0);
  const StageClock::Stage stage(setup_.clock, "sweep", chunk.stream, value_bytes(chunk) + read * row_tokens(chunk));
  const DeviceOutputs outputs = take_outputs(chunk.rows, num_settings, chunk.kv.value_dim, setup_.arena);
  const SweepView sweep{
      .scores = chunk.by_tokens(selection.read_scores == nullptr ? chunk.exact : selection.read_scores),
      .levels = chunk.by_tokens(selection.levels),
      .num_settings = num_settings,
      .order = selection.level_order};
  const DeviceValues values{selection.value_groups, selection.value_quantizer, selection.num_approximate.device};
  cuda_setting_outputs(chunk.rows, chunk.kv, sweep, values, outputs, setup_.arena, chunk.stream);
  cuda_add_sinks(chunk.rows, outputs, chunk.stream);
  if (selection.mean_value_share)
    cuda_blend_mean_values(chunk.rows, chunk.kv, selection.mean_value_share, outputs, setup_.arena, chunk.stream);
  return outputs;
}

}  // namespace attest
