// Tiles of rows x pages on CUDA cores. With pages of 16 tokens this is 1/16 of the work of scoring all tokens, so
// tensor cores would gain little.
#include "kernels/attention/page_scores_cuda.h"
#include "kernels/attention/score_tiles.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/quantize/ranges_cuda.h"

namespace attest {
namespace {

constexpr int kPageScoresThreads = 256;
constexpr int kPages = 64;     // pages per tile
constexpr int kChannels = 32;  // channels staged at a time
constexpr int kSide = 4;       // a thread has kSide rows x kSide pages

/// The larger of the products of q with the two ends of the channel's range.
__device__ float bound(float q, float lowest, float highest) { return fmaxf(q * highest, q * lowest); }

__global__ void __launch_bounds__(kPageScoresThreads)
    page_scores_kernel(DeviceRows rows, DeviceKeyValues kv, const float* queries, SegmentRanges ranges, int page,
                       DeviceMatrix<float> out) {
  __shared__ float q[kMaxBatchRows][kChannels + 1], low[kPages][kChannels + 1], high[kPages][kChannels + 1];
  const RowBatch batch = rows.batches[blockIdx.y];
  const int first = blockIdx.x * kPages, padded = padded_channels(kv.head_dim), pages = ranges.lowest.segments;
  if (first * page >= batch.length) return;
  const int row = static_cast<int>(threadIdx.x) / 16, column = static_cast<int>(threadIdx.x) % 16;
  float sums[kSide][kSide] = {};
  for (int channel = 0; channel < kv.head_dim; channel += kChannels) {
    __syncthreads();
    for (int i = threadIdx.x; i < kMaxBatchRows * kChannels; i += kPageScoresThreads) {
      const int r = i / kChannels, d = i % kChannels;
      q[r][d] = r < batch.num_rows ? queries[static_cast<std::int64_t>(batch.first_row + r) * padded + channel + d] : 0;
    }
    for (int i = threadIdx.x; i < kPages * kChannels; i += kPageScoresThreads) {
      const int p = i / kChannels, d = i % kChannels;
      low[p][d] = first + p < pages ? ranges.lowest.row(batch.origin, first + p)[channel + d] : 0;
      high[p][d] = first + p < pages ? ranges.highest.row(batch.origin, first + p)[channel + d] : 0;
    }
    __syncthreads();
#pragma unroll 4
    for (int d = 0; d < kChannels; ++d)
#pragma unroll
      for (int i = 0; i < kSide; ++i)
#pragma unroll
        for (int j = 0; j < kSide; ++j)
          sums[i][j] += bound(q[row + 16 * i][d], low[column + 16 * j][d], high[column + 16 * j][d]);
  }
#pragma unroll
  for (int i = 0; i < kSide; ++i)
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
      const int r = row + 16 * i, p = first + column + 16 * j;
      if (r < batch.num_rows && (p + 1) * page <= rows.visible[batch.first_row + r])
        out.row(batch.first_row + r)[p] = score_of(sums[i][j], kv);
    }
}

/// One warp per row; scores its last page if that is partial. Terms are added in the same order as for full pages, so
/// that equal pages get equal scores.
__global__ void __launch_bounds__(kPageScoresThreads)
    last_pages_kernel(DeviceRows rows, DeviceKeyValues kv, const float* queries, int page, DeviceMatrix<float> out) {
  const int row = (blockIdx.x * kPageScoresThreads + static_cast<int>(threadIdx.x)) / 32,
            lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= rows.num_rows) return;
  const int visible = rows.visible[row], last = visible / page;
  if (visible % page == 0) return;
  const KeyOrigin origin = rows.origins[rows.origin[row]];
  const std::int64_t first_key = static_cast<std::int64_t>(origin.kv_head) * kv.tokens + origin.first_key;
  const float* q = queries + static_cast<std::int64_t>(row) * padded_channels(kv.head_dim);
  float sum = 0;
  for (int first = 0; first < kv.head_dim; first += 32 * kOctet) {
    const int channel = first + lane * kOctet;
    float terms[kOctet] = {};
    if (channel < kv.head_dim) {
      float low[kOctet], high[kOctet];
      for (int token = last * page; token < visible; ++token) {
        float key[kOctet];
        load_octet(kv.type, kv.keys, (first_key + token) * kv.head_dim + channel, kv.head_dim - channel, kv.head_dim,
                   key);
#pragma unroll
        for (int i = 0; i < kOctet; ++i) {
          low[i] = token == last * page ? key[i] : fminf(low[i], key[i]);
          high[i] = token == last * page ? key[i] : fmaxf(high[i], key[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kOctet; ++i)
        terms[i] = channel + i < kv.head_dim ? bound(q[channel + i], low[i], high[i]) : 0;
    }
    for (int source = 0; source < 32; ++source)
#pragma unroll
      for (int i = 0; i < kOctet; ++i) sum += __shfl_sync(0xFFFFFFFFu, terms[i], source);
  }
  if (lane == 0) out.row(row)[last] = score_of(sum, kv);
}

}  // namespace

void cuda_page_scores(const DeviceRows& rows, const DeviceKeyValues& kv, const QueryParts& queries, int page,
                      const DeviceMatrix<float>& out, DeviceArena& arena, cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  const SegmentRanges ranges = cuda_segment_ranges(rows, kv, page, arena, stream);
  const dim3 grid((ranges.lowest.segments + kPages - 1) / kPages, rows.num_batches);
  page_scores_kernel<<<grid, kPageScoresThreads, 0, stream>>>(rows, kv, queries.values, ranges, page, out);
  ATTEST_CUDA_LAUNCHED(page_scores_kernel);
  last_pages_kernel<<<(rows.num_rows * 32 + kPageScoresThreads - 1) / kPageScoresThreads, kPageScoresThreads, 0,
                      stream>>>(rows, kv, queries.values, page, out);
  ATTEST_CUDA_LAUNCHED(last_pages_kernel);
}

}  // namespace attest
