// The study of a chunk of rows on the device: exact attention, then each selector and its metrics.
#include "analysis/cuda/cuda_chunk_study.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "analysis/cuda/cuda_layer_chunk.h"
#include "analysis/cuda/cuda_overflow.h"
#include "analysis/cuda/cuda_placement.h"
#include "analysis/metrics/score_statistics.h"
#include "kernels/attention/setting_outputs_cuda.h"
#include "kernels/attention/sinks_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/selectors/selection_outputs_cuda.h"

namespace attest {
namespace {

/// The CUDA functions that fill a selector's arrays, each listed once: metrics computed in one pass share a function.
/// Without an estimate, metrics that need one are skipped.
std::vector<decltype(SelectorFunctions::cuda)> passes_of(const SelectorLayout& layout, bool has_estimate) {
  std::vector<decltype(SelectorFunctions::cuda)> passes;
  for (const ResultArray& array : layout.arrays) {
    if (array.metric == nullptr || (array.metric->needs.estimate && !has_estimate)) continue;
    decltype(SelectorFunctions::cuda) pass = nullptr;
    if (const auto* of_selector = array.functions<SelectorFunctions>())
      pass = of_selector->cuda;
    else if (const auto* of_layer = array.functions<LayerFunctions>())
      pass = of_layer->cuda;
    else
      pass = std::get<SpanTokenFunctions>(array.metric->functions).cuda;
    if (std::ranges::find(passes, pass) == passes.end()) passes.push_back(pass);
  }
  return passes;
}

/// [rows, Dv] output gradients of the groups' rows.
std::vector<float> gradients_of(const AttentionLayer& layer, std::span<const QueryGroup> groups) {
  std::vector<float> gradients;
  for (const QueryGroup& place : groups)
    for (int h = 0; h < layer.shape.group(); ++h) {
      const auto row = layer.output_gradient_of(place.query, place.kv_head * layer.shape.group() + h);
      gradients.insert(gradients.end(), row.begin(), row.end());
    }
  return gradients;
}

/// Exact attention as the kernels of another stream see it.
class Seen {
 public:
  Seen(const CudaExactRows& exact, const CudaSelectorStreams::One& one) : chunk_(*exact.chunk), exact_(exact) {
    chunk_.arena = &one.arena;
    chunk_.stream = one.stream;
    exact_.chunk = &chunk_;
  }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;

  const CudaExactRows& exact() const { return exact_; }

 private:
  CudaChunk chunk_;
  CudaExactRows exact_;
};

}  // namespace

CudaChunkStudy::CudaChunkStudy(const Setup& setup) : setup_(setup) {}

CudaExactRows CudaChunkStudy::attend_exactly(CudaChunk& chunk, std::span<const QueryGroup> groups) {
  const DeviceRows& rows = chunk.rows;
  const auto num_rows = static_cast<std::size_t>(rows.num_rows);
  CudaExactRows exact;
  exact.chunk = &chunk;
  exact.clock = &setup_.clock;
  exact.statistics = {chunk.take<float>(num_rows), chunk.take<double>(num_rows)};
  exact.outputs = take_outputs(rows, 1, chunk.kv.value_dim, *chunk.arena);
  exact.spans = {chunk.upload(setup_.spans), static_cast<int>(setup_.spans.size())};
  exact.num_query_heads = setup_.layer.shape.num_query_heads;
  if (!setup_.head_weights.empty()) exact.head_weights = chunk.upload(setup_.head_weights);
  if (!setup_.layer.output_gradient.empty()) exact.output_gradient = chunk.upload(gradients_of(setup_.layer, groups));
  {
    const StageClock::Stage stage(setup_.clock, "scores", chunk.stream, key_bytes(chunk) + 4 * row_tokens(chunk));
    cuda_exact_scores(chunk);
  }
  cuda_find_overflow(chunk, chunk.visible_values(chunk.exact), -kLargestScore, {.step = OverflowStep::score},
                     setup_.results.first_overflow());
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

void CudaChunkStudy::enqueue(std::span<const QueryGroup> groups, DeviceArena& arena,
                             const CudaSelectorStreams* streams) {
  const DeviceArena::Scope scope(arena);
  const RowTables tables = row_tables(setup_.layer, setup_.inputs.heads, groups);
  CudaChunk chunk = layer_chunk(setup_.layer, setup_.inputs, tables, arena, setup_.uploads, setup_.stream);
  CudaExactRows exact = attend_exactly(chunk, groups);

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
  if (streams != nullptr) streams->begin(chunk.stream);
  for (std::size_t s = 0; s < setup_.selectors.size(); ++s) {
    const StudySelector& chosen = setup_.study.selectors[s];
    std::optional<Seen> elsewhere;
    if (streams != nullptr) elsewhere.emplace(exact, streams->of(s));
    const CudaExactRows& seen = elsewhere ? elsewhere->exact() : exact;
    if (chosen.selector->monotone() || is_dense(groups, s)) {
      run_selector(seen, groups, s, chosen.grid, 0);
    } else {
      for (std::size_t i = 0; i < chosen.grid.size(); ++i)
        run_selector(seen, groups, s, std::span(chosen.grid).subspan(i, 1), i);
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
  const DeviceArena::Scope scope(*exact.chunk->arena);
  const Selector& selector = *setup_.study.selectors[s].selector;
  const std::vector<double> shifts = setting_shifts(selector, setup_.layer.layer, groups);
  CudaChunk chunk = *exact.chunk;
  chunk.setting_shift = shifts;
  const SelectorLayout& layout = setup_.results.layout().selectors[s];
  const std::vector<AscendingGrid> grids = layer_grids(setup_.layer, selector, grid);
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
  cuda_check_selection(chunk, selector, selection, s, overflow);
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
                        selection.value_groups == nullptr && selection.made_values.data == nullptr &&
                        !selection.mean_value_share && num_settings == 1;
  if (as_exact) return exact.outputs;
  const int read = 4 + (selection.levels != nullptr ? static_cast<int>(sizeof(Level)) : 0);
  const StageClock::Stage stage(setup_.clock, "sweep", chunk.stream, value_bytes(chunk) + read * row_tokens(chunk));
  return cuda_selection_outputs(chunk, selection, num_settings);
}

}  // namespace attest
