// recall, output_error, weighted_error_head, predicted_loss_head, lse_error and recall_layer on the device: one warp
// per (row, setting), sums over channels in double. head_weight: a thread per row.
#include "analysis/metrics/output_fidelity.h"
#include "analysis/metrics/rows_cuda.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/not_defined.cuh"

namespace attest {
namespace {

constexpr int kOutputThreads = 128;

/// Outputs, [N, Hq, S] each.
struct OutputArrays {
  float *recall, *output_error, *lse_error;
  float* weighted_error;  ///< null without head weights
  float* predicted_loss;  ///< null without output gradients
  double* sums;           ///< three per cell, for recall_layer
};

/// 1 if both are zero vectors, NaN if one is.
__device__ float cosine_of(double dot, double square_a, double square_b) {
  if (square_a == 0 && square_b == 0) return 1;
  if (square_a == 0 || square_b == 0) return not_defined();
  return static_cast<float>(dot / (sqrt(square_a) * sqrt(square_b)));
}

__global__ void __launch_bounds__(kOutputThreads)
    output_fidelity_kernel(DeviceRows rows, DeviceOutputs outputs, DeviceOutputs exact, SettingOffsets offsets,
                           const double* weights, int num_query_heads, const float* gradients, OutputArrays out) {
  const int row = blockIdx.x, lane = threadIdx.x % 32, value_dim = exact.value_dim;
  const float kMaxError = __int_as_float(0x7F7FFFFF);
  const float* o = exact.output + static_cast<std::int64_t>(row) * value_dim;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < offsets.count; i += kOutputThreads / 32) {
    const std::int64_t cell = static_cast<std::int64_t>(row) * offsets.count + i;
    const float* a = outputs.output + cell * value_dim;
    const float* g = gradients == nullptr ? nullptr : gradients + static_cast<std::int64_t>(row) * value_dim;
    double dot = 0, square = 0, exact_square = 0, difference = 0, change = 0;
    for (int d = lane; d < value_dim; d += 32) {
      const double x = a[d], y = o[d];
      dot += x * y;
      square += x * x;
      exact_square += y * y;
      difference += (x - y) * (x - y);
      if (g != nullptr) change += g[d] * (x - y);
    }
    dot = warp_reduce(dot, Plus{});
    square = warp_reduce(square, Plus{});
    exact_square = warp_reduce(exact_square, Plus{});
    difference = warp_reduce(difference, Plus{});
    change = warp_reduce(change, Plus{});
    if (lane != 0) continue;
    const std::int64_t at = offsets.at(rows, row, i);
    out.recall[at] = cosine_of(dot, square, exact_square);
    out.output_error[at] =
        exact_square > 0 ? fminf(static_cast<float>(sqrt(difference / exact_square)), kMaxError) : not_defined();
    if (out.weighted_error != nullptr)
      out.weighted_error[at] =
          fminf(static_cast<float>(weights[rows.cell[row] % num_query_heads] * sqrt(difference)), kMaxError);
    if (out.predicted_loss != nullptr)
      out.predicted_loss[at] = fminf(fmaxf(static_cast<float>(0 - change), -kMaxError), kMaxError);
    out.lse_error[at] = static_cast<float>(fabs(outputs.lse[cell] - exact.lse[row]));
    out.sums[3 * at] = dot;
    out.sums[3 * at + 1] = square;
    out.sums[3 * at + 2] = exact_square;
  }
}

__global__ void recall_layer_kernel(const double* sums, int num_queries, int num_heads, int num_settings, float* out) {
  const int i = blockIdx.x * kOutputThreads + threadIdx.x;
  if (i >= num_queries * num_settings) return;
  const std::int64_t first = static_cast<std::int64_t>(i / num_settings) * num_heads * num_settings + i % num_settings;
  double total[3] = {};
  for (int h = 0; h < num_heads; ++h) {
    const double* head = sums + 3 * (first + static_cast<std::int64_t>(h) * num_settings);
    for (int t = 0; t < 3; ++t) total[t] += head[t];
  }
  out[i] = cosine_of(total[0], total[1], total[2]);
}

__global__ void head_weight_kernel(DeviceRows rows, const double* weights, int num_query_heads, float* out) {
  const int row = static_cast<int>(blockIdx.x) * kOutputThreads + static_cast<int>(threadIdx.x);
  if (row < rows.num_rows) out[rows.cell[row]] = static_cast<float>(weights[rows.cell[row] % num_query_heads]);
}

}  // namespace

void cuda_head_weight(const CudaExactRows& rows, const CudaCells& cells) {
  const CudaChunk& chunk = *rows.chunk;
  head_weight_kernel<<<(chunk.rows.num_rows + kOutputThreads - 1) / kOutputThreads, kOutputThreads, 0, chunk.stream>>>(
      chunk.rows, rows.head_weights, rows.num_query_heads, cells.of("head_weight"));
  ATTEST_CUDA_LAUNCHED(head_weight_kernel);
}

void cuda_output_fidelity(const CudaSelectorRows& rows, const CudaCells& cells) {
  const CudaChunk& chunk = rows.chunk();
  const StageClock::Stage stage(*rows.exact->clock, "output fidelity", chunk.stream, 0);
  const OutputArrays out{.recall = cells.of("recall"),
                         .output_error = cells.of("output_error"),
                         .lse_error = cells.of("lse_error"),
                         .weighted_error = cells.of("weighted_error_head"),
                         .predicted_loss = cells.of("predicted_loss_head"),
                         .sums = reinterpret_cast<double*>(cells.head_sums_of("recall_layer"))};
  output_fidelity_kernel<<<chunk.rows.num_rows, kOutputThreads, 0, chunk.stream>>>(
      chunk.rows, rows.outputs, rows.exact->outputs, rows.offsets, rows.exact->head_weights,
      rows.exact->num_query_heads, rows.exact->output_gradient, out);
  ATTEST_CUDA_LAUNCHED(output_fidelity_kernel);
}

void cuda_recall_layer(const CudaLayerSums& layer) {
  const int blocks = (layer.num_queries * layer.num_settings + kOutputThreads - 1) / kOutputThreads;
  recall_layer_kernel<<<blocks, kOutputThreads, 0, layer.stream>>>(
      reinterpret_cast<const double*>(layer.sums), layer.num_queries, layer.num_heads, layer.num_settings, layer.cells);
  ATTEST_CUDA_LAUNCHED(recall_layer_kernel);
}

}  // namespace attest
