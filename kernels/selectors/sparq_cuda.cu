// sparq on the device. Method and sources: sparq.cpp.

#include <cub/block/block_scan.cuh>

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/attention/score_targets.cuh"
#include "kernels/attention/scores_cuda.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/sparq_options.h"

namespace attest {
namespace {

constexpr int kSparqThreads = 256;

std::size_t channel_bytes(int padded) { return static_cast<std::size_t>(padded) * (sizeof(double) + 1); }

/// Chooses the channel set I of each group. Writes the queries with all other channels 0 to `parts`, and
/// sqrt(|q|_1 / |q[I]|_1) per row to `coverage`. One thread block per group.
__global__ void __launch_bounds__(kSparqThreads)
    choose_channels_kernel(DeviceRows rows, QueryParts queries, int head_dim, int rank, std::uint16_t* parts,
                           float* coverage) {
  extern __shared__ double magnitude[];  // [padded]
  const int padded = padded_channels(head_dim), first = blockIdx.x * rows.group;
  auto* chosen = reinterpret_cast<std::uint8_t*>(magnitude + padded);  // [padded]
  const float* own = queries.values + static_cast<std::int64_t>(first) * padded;
  for (int d = threadIdx.x; d < head_dim; d += kSparqThreads) {
    double sum = 0;
    for (int h = 0; h < rows.group; ++h) sum += fabs(static_cast<double>(own[h * padded + d]));
    magnitude[d] = sum;
  }
  __syncthreads();
  for (int d = threadIdx.x; d < padded; d += kSparqThreads) {
    int ahead = 0;  // number of channels that rank before this one
    for (int e = 0; e < head_dim && d < head_dim; ++e)
      ahead += magnitude[e] > magnitude[d] || (magnitude[e] == magnitude[d] && e < d) ? 1 : 0;
    chosen[d] = d < head_dim && ahead < rank ? 1 : 0;
  }
  __syncthreads();
  for (int h = static_cast<int>(threadIdx.x) / 32; h < rows.group; h += kSparqThreads / 32) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    double all = 0, seen = 0;
    for (int d = lane; d < head_dim; d += 32) {
      const double a = fabs(static_cast<double>(own[h * padded + d]));
      all += a;
      seen += chosen[d] != 0 ? a : 0;
    }
    all = warp_reduce(all, Plus{});
    seen = warp_reduce(seen, Plus{});
    if (lane == 0) coverage[first + h] = seen > 0 ? static_cast<float>(sqrt(all / seen)) : 1.0f;
  }
  for (int part = 0; part < queries.num_parts; ++part) {
    const std::int64_t begin = (static_cast<std::int64_t>(part) * rows.num_rows + first) * padded;
    for (int i = threadIdx.x; i < rows.group * padded; i += kSparqThreads)
      parts[begin + i] = chosen[i % padded] != 0 ? queries.parts[begin + i] : std::uint16_t{0};
  }
}

/// Turns dot products into estimates, in place, and sums them over the group.
__global__ void sparq_estimate_kernel(DeviceRows rows, DeviceKeyValues kv, const float* coverage, float* estimate,
                                      float* group_scores) {
  const int token = blockIdx.x * kSparqThreads + static_cast<int>(threadIdx.x), first = blockIdx.y * rows.group;
  if (token >= rows.visible[first]) return;
  double sum = 0;
  for (int row = first; row < first + rows.group; ++row) {
    float& score = estimate[row * rows.stride + token];
    score = score_of(coverage[row] * score, kv);
    sum += score;
  }
  group_scores[blockIdx.y * rows.stride + token] = static_cast<float>(sum);
}

/// Ranks tokens by their mass, the sum over the group of softmax(s^). group_scores = log(mass - smallest mass), which
/// has the same order but keeps masses distinct in float32: a head with nearly uniform weights adds about the same to
/// every token, and in the plain sum the differences of the other heads would be rounded away. One thread block per
/// group. masses [groups, stride].
__global__ void __launch_bounds__(kSparqThreads)
    group_masses_kernel(DeviceRows rows, const float* estimate, LevelSums all, double* masses, float* group_scores) {
  __shared__ double shared[32];
  const int first = blockIdx.x * rows.group, visible = rows.visible[first];
  const std::int64_t begin = blockIdx.x * rows.stride;
  double minimum = rows.group;
  for (int token = threadIdx.x; token < visible; token += kSparqThreads) {
    double mass = 0;
    for (int row = first; row < first + rows.group; ++row)
      mass += exp(static_cast<double>(estimate[row * rows.stride + token]) - static_cast<double>(*all.max.row(row))) /
              *all.sum.row(row);
    masses[begin + token] = mass;
    minimum = fmin(minimum, mass);
  }
  minimum = block_reduce(minimum, shared, Smaller{});
  for (int token = threadIdx.x; token < visible; token += kSparqThreads)
    group_scores[begin + token] = static_cast<float>(log(masses[begin + token] - minimum));
}

/// Writes cuts [groups, S]: the place in the group's order after the last of the best `others` tokens. One thread block
/// per setting and group.
__global__ void __launch_bounds__(kSparqThreads)
    cuts_kernel(DeviceRows rows, RowOrder order, QuerySettings<SparqKept> settings, int* cuts) {
  using Scan = cub::BlockScan<int, kSparqThreads>;
  __shared__ typename Scan::TempStorage temp;
  const int group = blockIdx.y, row = group * rows.group, visible = rows.visible[row];
  const SparqKept kept = settings.of_row(row)[blockIdx.x];
  int* cut = cuts + static_cast<std::int64_t>(group) * settings.count + blockIdx.x;
  if (kept.others == 0 && threadIdx.x == 0) *cut = 0;
  int found = 0;
  for (int begin = 0; begin < visible && found < kept.others; begin += kSparqThreads) {
    const int place = begin + static_cast<int>(threadIdx.x);
    const int counts = place < visible && order(group, place) < kept.forced ? 1 : 0;
    int before = 0, total = 0;
    Scan(temp).ExclusiveSum(counts, before, total);
    __syncthreads();
    if (counts != 0 && found + before + 1 == kept.others) *cut = place + 1;
    found += total;
  }
}

/// Writes the levels of all rows of a group. One thread per place of the group's order.
__global__ void kept_levels_kernel(DeviceRows rows, RowOrder order, QuerySettings<SparqKept> settings, const int* cuts,
                                   Level* levels) {
  const int place = blockIdx.x * kSparqThreads + static_cast<int>(threadIdx.x), group = blockIdx.y,
            first = group * rows.group;
  if (place >= rows.visible[first]) return;
  const int token = order(group, place);
  const SparqKept* own = settings.of_row(first);
  const int* cut = cuts + static_cast<std::int64_t>(group) * settings.count;
  int level = 0;
  while (level < settings.count && token < own[level].forced && place >= cut[level]) ++level;
  for (int row = first; row < first + rows.group; ++row) levels[row * rows.stride + token] = static_cast<Level>(level);
}

/// shares[row][i] = softmax mass of the tokens with level <= i; shares [rows, S].
__global__ void kept_shares_kernel(int num_rows, int settings, LevelSums by_level, LevelSums all,
                                   DeviceMatrix<double> shares) {
  const int row = blockIdx.x * kSparqThreads + static_cast<int>(threadIdx.x);
  if (row >= num_rows) return;
  double mass = 0;
  for (int i = 0; i < settings; ++i) {
    mass += by_level.sum.row(row)[i] *
            exp(static_cast<double>(by_level.max.row(row)[i]) - static_cast<double>(*all.max.row(row)));
    shares.row(row)[i] = mass / *all.sum.row(row);
  }
}

class CudaSparq final : public CudaSelector, SparqOptions {
 public:
  explicit CudaSparq(const SparqOptions& options) : SparqOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    const auto num_rows = static_cast<std::size_t>(rows.num_rows),
               groups = num_rows / static_cast<std::size_t>(rows.group);
    const std::size_t settings = grids.front().values.size();
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    auto* estimate = chunk.take_rows<float>();
    out.estimate = estimate;
    auto* levels = chunk.take_levels();
    out.levels = levels;
    const DeviceMatrix<double> shares{mean_value_ ? chunk.take<double>(num_rows * settings) : nullptr,
                                      static_cast<std::int64_t>(settings)};
    out.mean_value_share = shares;
    out.io = group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv.shape(), visible); });

    const DeviceArena::Scope scope(*chunk.arena);
    auto* group_scores = chunk.take<float>(groups * static_cast<std::size_t>(rows.stride));
    const LevelSums all = take_level_sums(rows, 1, *chunk.arena);
    score(chunk, estimate, group_scores);
    if (softmax_scores_ || mean_value_)
      cuda_sum_levels(rows, {.scores = chunk.by_tokens(estimate), .sums = all}, chunk.stream);
    if (softmax_scores_) {
      const DeviceArena::Scope of_masses(*chunk.arena);
      auto* masses = chunk.take<double>(groups * static_cast<std::size_t>(rows.stride));
      group_masses_kernel<<<rows.num_rows / rows.group, kSparqThreads, 0, chunk.stream>>>(rows, estimate, all, masses,
                                                                                          group_scores);
      ATTEST_CUDA_LAUNCHED(group_masses_kernel);
    }
    rule(chunk, grids, group_scores, levels);
    if (!mean_value_) return;
    const int count = static_cast<int>(settings);
    const LevelSums by_level = take_level_sums(rows, count, *chunk.arena);
    cuda_sum_levels(rows,
                    {.scores = chunk.by_tokens(estimate),
                     .levels = chunk.by_tokens(levels),
                     .num_settings = count,
                     .sums = by_level},
                    chunk.stream);
    kept_shares_kernel<<<(rows.num_rows + kSparqThreads - 1) / kSparqThreads, kSparqThreads, 0, chunk.stream>>>(
        rows.num_rows, count, by_level, all, shares);
    ATTEST_CUDA_LAUNCHED(kept_shares_kernel);
  }

 private:
  static dim3 tokens_by_group(const DeviceRows& rows) {
    return dim3((rows.max_length + kSparqThreads - 1) / kSparqThreads, rows.num_rows / rows.group);
  }

  /// Writes the estimate, and its sum over each group to group_scores [groups, stride].
  void score(const CudaChunk& chunk, float* estimate, float* group_scores) const {
    const DeviceArena::Scope scope(*chunk.arena);
    const DeviceRows& rows = chunk.rows;
    const int padded = padded_channels(chunk.kv.head_dim);
    auto* parts = chunk.take<std::uint16_t>(static_cast<std::size_t>(chunk.queries.num_parts) *
                                            static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(padded));
    auto* coverage = chunk.take<float>(static_cast<std::size_t>(rows.num_rows));
    choose_channels_kernel<<<rows.num_rows / rows.group, kSparqThreads, channel_bytes(padded), chunk.stream>>>(
        rows, chunk.queries, chunk.kv.head_dim, rank_, parts, coverage);
    ATTEST_CUDA_LAUNCHED(choose_channels_kernel);
    QueryParts queries = chunk.queries;
    queries.parts = parts;
    cuda_scores(rows, without_score_transform(chunk.kv), queries, chunk.by_tokens(estimate), {}, chunk.stream);
    sparq_estimate_kernel<<<tokens_by_group(rows), kSparqThreads, 0, chunk.stream>>>(rows, chunk.kv, coverage, estimate,
                                                                                     group_scores);
    ATTEST_CUDA_LAUNCHED(sparq_estimate_kernel);
  }

  void rule(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const float* group_scores,
            Level* levels) const {
    const DeviceArena::Scope scope(*chunk.arena);
    const DeviceRows& rows = chunk.rows;
    const int groups = rows.num_rows / rows.group;
    std::vector<int> visible;
    for (std::size_t r = 0; r < chunk.visible.size(); r += static_cast<std::size_t>(rows.group))
      visible.push_back(chunk.visible[r]);
    const RowOrder order = cuda_sort_descending(
        {chunk.by_tokens(group_scores), chunk.upload(visible), groups, rows.max_length}, *chunk.arena, chunk.stream);
    const auto settings =
        query_settings<SparqKept>(chunk, grids, [&](double budget, std::int64_t all) { return kept(budget, all); });
    auto* cuts = chunk.take<int>(static_cast<std::size_t>(groups) * static_cast<std::size_t>(settings.count));
    cuts_kernel<<<dim3(settings.count, groups), kSparqThreads, 0, chunk.stream>>>(rows, order, settings, cuts);
    ATTEST_CUDA_LAUNCHED(cuts_kernel);
    kept_levels_kernel<<<tokens_by_group(rows), kSparqThreads, 0, chunk.stream>>>(rows, order, settings, cuts, levels);
    ATTEST_CUDA_LAUNCHED(kept_levels_kernel);
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_sparq(const SparqOptions& options) {
  return std::make_shared<CudaSparq>(options);
}

}  // namespace attest
