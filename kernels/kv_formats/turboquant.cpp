// turboquant4, turboquant3. A key is rotated and coded by Lloyd-Max centroids of the normal distribution:
//   n = float32(norm of x), y = (x / (n + 1e-8)) H, H the Walsh-Hadamard transform times 1/sqrt(C)
//   code = number of midpoints <= y, c = centroid(code), c /= sqrt(sum c^2 + 1e-16) (norm correction)
//   x^ = (c H) fp16(n)
// A value is uniform per token and head, and not rotated:
//   lo = min, s = max((max - lo)/(2^b - 1), 1e-8), code = trunc((x - lo)/s + .5), x^ = code fp16(s) + fp16(lo)
// Source: TurboQuant (arXiv 2504.19874) as vLLM ships it (--kv-cache-dtype turboquant_*).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/hadamard.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/kv_formats/turboquant_codebook.h"
#include "kernels/lane_sum.h"
#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

/// Replaces eight numbers by their centroids.
template <int kBits>
void nearest_centroids(const TurboquantCodebook<kBits>& book, float* y) {
  typedef float Vec8 __attribute__((vector_size(32)));
  Vec8 position, centroid = Vec8{} + book.centroids[0];
  std::memcpy(&position, y, sizeof position);
  for (int i = 0; i + 1 < book.kLevels; ++i)
    centroid = position >= book.midpoints[i] ? Vec8{} + book.centroids[i + 1] : centroid;
  std::memcpy(y, &centroid, sizeof centroid);
}

template <int kBits>
void apply_to_keys(const KvRows& rows, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  const int channels = rows.channels;
  const auto n = static_cast<std::size_t>(channels);
  const TurboquantCodebook<kBits>& book = turboquant_codebook<kBits>(channels);
  const double root = 1 / std::sqrt(static_cast<double>(channels));
  const auto factor = static_cast<float>(root);
  std::vector<float> y((n + 7) / 8 * 8);
  for (std::int64_t t = 0; t < count; ++t, x += channels, out += stride) {
    const auto norm = static_cast<float>(
        std::sqrt(lane_sum(n, [&](std::size_t d) { return static_cast<double>(x[d]) * static_cast<double>(x[d]); })));
    const float divisor = norm + 1e-8f;
    for (std::size_t d = 0; d < n; ++d) y[d] = x[d] / divisor;
    hadamard(y.data(), channels);
    for (std::size_t d = 0; d < n; ++d) y[d] *= factor;
    for (std::size_t d = 0; d < y.size(); d += 8) nearest_centroids(book, y.data() + d);
    const double squares =
        lane_sum(n, [&](std::size_t d) { return static_cast<double>(y[d]) * static_cast<double>(y[d]); });
    const double scale = through_float16(norm) * root / std::sqrt(squares + 1e-16);
    for (std::size_t d = 0; d < n; ++d) out[d] = y[d];
    hadamard(out, channels);
    for (std::size_t d = 0; d < n; ++d) out[d] *= scale;
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
void apply(const KvRows& rows, float, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  rows.keys ? apply_to_keys<kBits>(rows, x, count, out, stride) : apply_to_values<kBits>(rows, x, count, out, stride);
}

template <int kBits>
double bytes(const KvRows& rows) {
  return (rows.channels * kBits + 7) / 8 + (rows.keys ? 2 : 4);
}

std::string fault(const KvRows& rows) { return rows.keys ? fault_unless_power_of_two(rows) : std::string(); }

template <int kBits, auto* cuda>
constexpr KvFormat turboquant(std::string_view name, std::string_view bytes_text, std::string_view rule) {
  return {.name = name,
          .bytes_text = bytes_text,
          .rule = rule,
          .source = "TurboQuant as vLLM ships it (turboquant_*)",
          .bytes = bytes<kBits>,
          .fault = fault,
          .apply = apply<kBits>,
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
