// Bounds and measured tails by KV head and batch of queries, with the kernels of the study.
#include "experiments/study_view/scan_bound.h"

#include <algorithm>
#include <cmath>

#include "analysis/layer/kv_head_batches.h"
#include "analysis/layer/kv_head_buffers.h"
#include "dumps/base/parallel_for.h"
#include "kernels/attention/scores.h"

namespace attest {
namespace {

struct Workspace {
  KvHeadBuffers buffers;
  RankedScores exact;
  Selection selection;
};

/// exp(-lambda^2 / (2 variance)); without noise nothing reaches lambda > 0.
double sub_gaussian(double lambda, double variance) {
  if (variance > 0) return std::exp(-lambda * lambda / (2 * variance));
  return lambda > 0 ? 0 : 1;
}

/// sigma_eff^2 of each block, and that of the paper's form.
struct Variances {
  std::vector<double> blocks;
  double paper = 0;
};

double squared_norm(const float* query, int head_dim) {
  double sum = 0;
  for (int d = 0; d < head_dim; ++d) sum += static_cast<double>(query[d]) * static_cast<double>(query[d]);
  return sum;
}

/// `norm2`: squared_norm() of the query.
Variances variances_of(const float* query, int head_dim, double norm2, double scale, std::span<const float> steps) {
  const auto dim = static_cast<std::size_t>(head_dim);
  Variances variances{.blocks = std::vector<double>(steps.size() / dim)};
  double largest = 0;
  for (std::size_t b = 0; b < variances.blocks.size(); ++b)
    for (std::size_t d = 0; d < dim; ++d) {
      const double half = static_cast<double>(steps[b * dim + d]) / 2,
                   part = scale * static_cast<double>(query[d]) * half;
      variances.blocks[b] += part * part;
      largest = std::max(largest, half);
    }
  variances.paper = scale * scale * norm2 * largest * largest;
  return variances;
}

/// Counts false negatives among the tokens near the peak.
void count_missed(ScanBoundRow& row, const double* exact, std::span<const double> estimate,
                  std::span<const Level> levels, double peak, double threshold, double delta,
                  std::span<const double> lambdas, const Variances& variances, std::int64_t block) {
  for (std::size_t j = 0; j < estimate.size(); ++j) {
    const double depth = peak - exact[j];
    if (depth > delta) continue;
    for (std::size_t i = 0; i < lambdas.size(); ++i) {
      if (depth > delta - lambdas[i]) continue;
      ScanBoundAt& at = row.at[i];
      ++at.salient;
      if (estimate[j] < threshold) ++at.missed;
      if (levels[j] > 0) ++at.dropped;
      at.missed_bound_block += sub_gaussian(lambdas[i], variances.blocks[j / static_cast<std::size_t>(block)]);
      at.missed_bound_paper += sub_gaussian(lambdas[i], variances.paper);
    }
  }
}

void bound_tails(ScanBoundRow& row, std::span<const double> lambdas, const Variances& variances) {
  const auto blocks = static_cast<double>(variances.blocks.size());
  for (std::size_t i = 0; i < lambdas.size(); ++i) {
    ScanBoundAt& at = row.at[i];
    for (const double variance : variances.blocks) {
      at.lower_bound_block += sub_gaussian(lambdas[i], variance) / blocks;
      at.bound_block += std::min(1.0, 2 * sub_gaussian(lambdas[i], variance)) / blocks;
    }
    at.lower_bound_paper = sub_gaussian(lambdas[i], variances.paper);
    at.bound_paper = std::min(1.0, 2 * at.lower_bound_paper);
  }
}

}  // namespace

std::vector<ScanBoundRow> scan_bounds(const AttentionLayer& layer, const Selector& selector, const FfdScan& scan,
                                      const Setting& delta, std::span<const double> lambdas, int threads) {
  const int num_heads = layer.shape.num_query_heads;
  std::vector<ScanBoundRow> rows(static_cast<std::size_t>(layer.num_queries() * num_heads));
  const std::vector<KvHeadBatch> batches = kv_head_batches(layer);
  std::vector<Workspace> workspaces(static_cast<std::size_t>(std::max(1, threads)));
  const auto run_batch = [&](int worker, std::size_t index) {
    Workspace& w = workspaces[static_cast<std::size_t>(worker)];
    const KvHeadBatch& batch = batches[index];
    const KvHead head = w.buffers.load(layer, batch, nullptr);
    scores(head.queries, head.rows(), head.head_dim, head.keys, head.length, head.transform, w.exact.scores);
    std::vector<AscendingGrid> grids;
    for (const std::int64_t visible : head.visible) grids.push_back(ascending(selector, {&delta, 1}, visible));
    w.selection.reset(head, selector.own_metrics(), 1);
    selector.select(head, w.exact, grids, w.selection);
    const double natural = selector.natural_delta(delta.value, head.transform);
    std::vector<float> steps;
    std::int64_t steps_covered = 0;
    for (int r = 0; r < head.rows(); ++r) {
      const auto n = static_cast<std::size_t>(r / head.group);
      const std::int64_t covered = w.selection.covered[n];
      const float* query = head.queries + static_cast<std::int64_t>(r) * head.head_dim;
      ScanBoundRow& row = rows[(static_cast<std::size_t>(batch.first_query) + n) * static_cast<std::size_t>(num_heads) +
                               static_cast<std::size_t>(batch.kv_head * head.group + r % head.group)];
      const double norm2 = squared_norm(query, head.head_dim);
      row.delta = natural;
      row.alpha = std::sqrt(norm2 / head.head_dim);
      if (covered == 0) continue;
      if (covered != steps_covered) steps = scan.steps(head, covered);
      steps_covered = covered;
      const Variances variances = variances_of(query, head.head_dim, norm2, head.transform.scale, steps);
      double mean = 0;
      for (const double variance : variances.blocks) mean += variance / static_cast<double>(variances.blocks.size());
      row.sigma_block = std::sqrt(mean);
      row.sigma_paper = std::sqrt(variances.paper);
      row.at.resize(lambdas.size());
      const double* exact = w.exact.scores.row(r);
      const std::span<const double> estimate = std::as_const(w.selection.estimate->scores).row(r, covered);
      bound_tails(row, lambdas, variances);
      count_missed(row, exact, estimate, std::as_const(w.selection.levels).row(r, covered),
                   *std::max_element(exact, exact + head.visible[n]),
                   scan.pseudo_max(exact, estimate.data(), covered) - natural, natural, lambdas, variances,
                   scan.block());
    }
  };
  parallel_for(static_cast<int>(workspaces.size()), batches.size(), run_batch);
  return rows;
}

}  // namespace attest
