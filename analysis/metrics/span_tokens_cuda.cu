// Metrics of the span tokens that the query heads of a layer keep together, on the device.
#include <algorithm>

#include "analysis/metrics/ratio.cuh"
#include "analysis/metrics/rows_cuda.h"
#include "analysis/metrics/span_tokens.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kSpanTokensThreads = 256;

/// One block per row. Bits of neighbouring settings are set together.
__global__ void __launch_bounds__(kSpanTokensThreads)
    span_bits_kernel(DeviceRows rows, DeviceSpans spans, const Level* levels, SettingOffsets offsets, SpanBits bits) {
  const int row = blockIdx.x, query = rows.query[row];
  const int first_key = rows.origins[rows.origin[row]].first_key, end_key = first_key + rows.visible[row];
  const int* settings = offsets.offsets + static_cast<std::int64_t>(query) * offsets.count;
  std::uint32_t* of_row = bits.bits + (bits.heads > 1 ? rows.cell[row] : query) * bits.tokens * bits.words;
  std::int64_t before = 0;  // tokens of the spans before this one
  for (int s = 0; s < spans.count; ++s) {
    const int2 span = spans.ranges[s];
    const int end = min(span.y, end_key);
    for (int key = max(span.x, first_key) + static_cast<int>(threadIdx.x); key < end; key += kSpanTokensThreads) {
      std::uint32_t* token = of_row + (before + key - span.x) * bits.words;
      int word = 0;
      std::uint32_t mask = 0;
      for (int i = levels == nullptr ? 0 : levels[row * rows.stride + key - first_key]; i < offsets.count; ++i) {
        const int at = settings[i] / kSettingsPerWord;
        if (at != word && mask != 0) {
          atomicOr(token + word, mask);
          mask = 0;
        }
        word = at;
        mask |= 1u << (settings[i] % kSettingsPerWord);
      }
      if (mask != 0) atomicOr(token + word, mask);
    }
    before += span.y - span.x;
  }
}

/// Number of heads that keep a token.
__device__ int heads_of(const SpanBits& bits, int query, int setting, std::int64_t token) {
  const std::uint32_t* word = bits.bits +
                              (static_cast<std::int64_t>(query) * bits.heads * bits.tokens + token) * bits.words +
                              setting / kSettingsPerWord;
  int count = 0;
  for (int h = 0; h < bits.heads; ++h)
    count += (word[h * bits.tokens * bits.words] >> (setting % kSettingsPerWord)) & 1u;
  return count;
}

/// One block per query and setting; all cells of span_token_heads are NaN before.
template <bool lost>
__global__ void __launch_bounds__(kSpanTokensThreads)
    span_tokens_kernel(SpanBits bits, const SpanTokenRange* seen, int num_settings, float* out) {
  __shared__ int shared[32];
  const int query = blockIdx.x / num_settings, setting = blockIdx.x % num_settings;
  const SpanTokenRange range = seen[query];
  int missed = 0;
  for (std::int64_t t = range.begin + threadIdx.x; t < range.end; t += kSpanTokensThreads) {
    const int heads = heads_of(bits, query, setting, t);
    if constexpr (lost)
      missed += heads == 0 ? 1 : 0;
    else
      out[blockIdx.x * bits.tokens + t] = static_cast<float>(heads);
  }
  if constexpr (lost) {
    missed = block_reduce(missed, shared, Plus{});
    if (threadIdx.x == 0) out[blockIdx.x] = ratio(missed, static_cast<int>(range.end - range.begin));
  }
}

template <bool lost>
void launch(const CudaSpanTokens& tokens) {
  const auto blocks = static_cast<unsigned>(tokens.num_queries * tokens.num_settings);
  span_tokens_kernel<lost>
      <<<blocks, kSpanTokensThreads, 0, tokens.stream>>>(tokens.bits, tokens.seen, tokens.num_settings, tokens.cells);
  ATTEST_CUDA_LAUNCHED(span_tokens_kernel);
}

}  // namespace

void cuda_span_bits(const CudaSelectorRows& rows, const CudaCells& cells) {
  const CudaChunk& chunk = rows.chunk();
  const SpanBits bits = cells.span_bits();
  if (bits.words == 0) return;
  const StageClock::Stage stage(*rows.exact->clock, "span tokens", chunk.stream, 0);
  span_bits_kernel<<<chunk.rows.num_rows, kSpanTokensThreads, 0, chunk.stream>>>(
      chunk.rows, rows.exact->spans, rows.selection->levels, rows.offsets, bits);
  ATTEST_CUDA_LAUNCHED(span_bits_kernel);
}

void cuda_span_lost(const CudaSpanTokens& tokens) { launch<true>(tokens); }
void cuda_span_token_heads(const CudaSpanTokens& tokens) { launch<false>(tokens); }

}  // namespace attest
