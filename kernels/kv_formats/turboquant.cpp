// turboquant4, turboquant3. A key is rotated and coded by Lloyd-Max centroids of the normal distribution:
//   n = float32(norm of x), y = (x / (n + 1e-8)) H, H the Walsh-Hadamard transform times 1/sqrt(C)
//   code = number of midpoints <= y, c = centroid(code), c /= sqrt(sum c^2 + 1e-16) (norm correction)
//   x^ = (c H) fp16(n)
// A value is uniform per token and head, and not rotated:
//   lo = min, s = max((max - lo)/(2^b - 1), 1e-8), code = trunc((x - lo)/s + .5), x^ = code fp16(s) + fp16(lo)
// Source: TurboQuant (arXiv 2504.19874) as vLLM ships it (--kv-cache-dtype turboquant_*).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/lane_sum.h"
#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/hadamard.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/kv_formats/turboquant_codebook.h"
#include "kernels/quantize/rounding.h"
#include "kernels/quantize/vector_steps.h"

namespace attest {
namespace {

/// c[i] = centroid of the number factor y[i], i < 16.
template <int kBits>
ATTEST_INLINE void nearest_centroids(const TurboquantCodebook<kBits>& book, const float* y, float factor, float* c) {
  Vec16f position, centroid = Vec16f{} + book.centroids[0];
  load(y, position);
  position *= factor;
  for (int i = 0; i + 1 < book.kLevels; ++i)
    centroid = position >= book.midpoints[i] ? Vec16f{} + book.centroids[i + 1] : centroid;
  store(centroid, c);
}

/// lane_sum() of the squares.
double sum_of_squares(const double* x, std::size_t n) {
  if (n % 8 != 0) return lane_sum(n, [x](std::size_t d) { return x[d] * x[d]; });
  Vec8d lanes{}, v;
  for (std::size_t i = 0; i < n; i += 8) {
    load(x + i, v);
    lanes += v * v;
  }
  return sum_of_lanes(lanes);
}

constexpr int kRowsAtOnce = 8;  // alone each would wait for its own sums and roots

template <int kBits>
void apply_to_keys(const KvRows& rows, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  const int channels = rows.channels;
  const auto n = static_cast<std::size_t>(channels), padded = (n + 15) / 16 * 16;
  const TurboquantCodebook<kBits>& book = turboquant_codebook<kBits>(channels);
  const double root = 1 / std::sqrt(static_cast<double>(channels));
  const auto factor = static_cast<float>(root);
  std::vector<float> y(padded);
  double sums[kRowsAtOnce] = {};
  float norms[kRowsAtOnce];
  for (std::int64_t first = 0; first < count;
       first += kRowsAtOnce, x += kRowsAtOnce * channels, out += kRowsAtOnce * stride) {
    const int here = static_cast<int>(std::min<std::int64_t>(kRowsAtOnce, count - first));
    for (int t = 0; t < here; ++t) {
      double* wide = out + t * stride;
      for (int d = 0; d < channels; ++d) wide[d] = x[t * channels + d];
      sums[t] = sum_of_squares(wide, n);
    }
    for (int t = 0; t < kRowsAtOnce; ++t) norms[t] = static_cast<float>(std::sqrt(sums[t]));
    for (int t = 0; t < here; ++t) {
      const float divisor = norms[t] + 1e-8f;
      double* wide = out + t * stride;
      for (int d = 0; d < channels; ++d) y[static_cast<std::size_t>(d)] = x[t * channels + d] / divisor;
      hadamard(y.data(), y.data(), channels, 1.0f);
      for (std::size_t d = 0; d < padded; d += 16) nearest_centroids(book, y.data() + d, factor, y.data() + d);
      for (int d = 0; d < channels; ++d) wide[d] = y[static_cast<std::size_t>(d)];
      sums[t] = sum_of_squares(wide, n);
    }
    for (int t = 0; t < kRowsAtOnce; ++t) sums[t] = through_float16(norms[t]) * root / std::sqrt(sums[t] + 1e-16);
    for (int t = 0; t < here; ++t) hadamard(out + t * stride, out + t * stride, channels, sums[t]);
  }
}

template <int kBits>
void apply_to_values(const KvRows& rows, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  for (std::int64_t t = 0; t < count; ++t, x += rows.channels, out += stride) {
    const auto [lo, hi] = range_of(x, rows.channels);
    const float step = std::max((hi - lo) / static_cast<float>(TurboquantCodebook<kBits>::kLevels - 1), 1e-8f);
    const double stored_step = through_float16(step), stored_lo = through_float16(lo);
    for (int d = 0; d < rows.channels; ++d)
      out[d] = static_cast<int>((x[d] - lo) / step + 0.5f) * stored_step + stored_lo;
  }
}

template <int kBits>
void apply_turboquant(const KvRows& rows, float, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  rows.keys ? apply_to_keys<kBits>(rows, x, count, out, stride) : apply_to_values<kBits>(rows, x, count, out, stride);
}

template <int kBits>
double turboquant_bytes(const KvRows& rows) {
  return (rows.channels * kBits + 7) / 8 + (rows.keys ? 2 : 4);
}

std::string turboquant_fault(const KvRows& rows) { return rows.keys ? fault_unless_power_of_two(rows) : std::string(); }

template <int kBits, auto* cuda>
constexpr KvFormat turboquant(std::string_view name, std::string_view bytes_text, std::string_view rule) {
  return {.name = name,
          .bytes_text = bytes_text,
          .rule = rule,
          .source = "TurboQuant as vLLM ships it (turboquant_*)",
          .bytes = turboquant_bytes<kBits>,
          .fault = turboquant_fault,
          .apply = apply_turboquant<kBits>,
          .cuda = on_cuda<cuda>()};
}

}  // namespace

extern const KvFormat kv_turboquant4, kv_turboquant3;
constexpr KvFormat kv_turboquant4 = turboquant<4, cuda_kv_turboquant4>(
    "turboquant4", "ceil(4C/8) + 2 (k), + 4 (v)",
    "k: norm, Hadamard rotation, 16 Lloyd-Max centroids, norm correction; v: 15 uniform steps from min to max");
constexpr KvFormat kv_turboquant3 = turboquant<3, cuda_kv_turboquant3>(
    "turboquant3", "ceil(3C/8) + 2 (k), + 4 (v)",
    "k: norm, Hadamard rotation, 8 Lloyd-Max centroids, norm correction; v: 7 uniform steps from min to max");

}  // namespace attest
