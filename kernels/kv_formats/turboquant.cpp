// turboquant4, turboquant3. A key is rotated and coded by Lloyd-Max centroids of the normal distribution:
//   n = float32(norm of x), y = (x / (n + 1e-8)) H, H the Walsh-Hadamard transform times 1/sqrt(C)
//   code = number of midpoints <= y, c = centroid(code), c /= sqrt(sum c^2 + 1e-16) (norm correction)
//   x^ = (c H) fp16(n)
// A value is uniform per token and head, and not rotated:
//   lo = min, s = max((max - lo)/(2^b - 1), 1e-8), code = trunc((x - lo)/s + .5), x^ = code fp16(s) + fp16(lo)
// Source: TurboQuant (arXiv 2504.19874) as vLLM ships it (--kv-cache-dtype turboquant_*).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <numbers>
#include <vector>

#include "kernels/kv_formats/hadamard.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/lane_sum.h"
#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

template <int kBits>
constexpr int kLevels = 1 << kBits;

template <int kBits>
struct Codebook {
  std::array<float, kLevels<kBits>> centroids;
  std::array<float, kLevels<kBits> - 1> midpoints;
};

/// Lloyd-Max for N(0, 1/C): 200 iterations or a change below 1e-10, moments by the trapezoid rule in 200 steps, outer
/// edges at 3 times the first and last edge of the start. In the order of the released code: the middle one of the
/// midpoints is 0 but for rounding, and its sign decides the code of a channel that is 0 after the rotation.
template <int kBits>
Codebook<kBits> lloyd_max(int channels) {
  constexpr std::size_t kCount = kLevels<kBits>;
  constexpr int kSteps = 200;
  const double variance = 1.0 / channels, sigma = std::sqrt(variance), lo = -3.5 * sigma, hi = 3.5 * sigma;
  const double peak = 1 / std::sqrt(2 * std::numbers::pi * variance);
  const auto density = [&](double x) { return peak * std::exp(-x * x / (2 * variance)); };
  const auto trapezoids = [&](double a, double b, auto&& of) {
    const double width = (b - a) / kSteps;
    double sum = 0.5 * (of(a) + of(b));
    for (int step = 1; step < kSteps; ++step) sum += of(a + step * width);
    return sum * width;
  };
  std::array<double, kCount> centroid;
  for (std::size_t i = 0; i < kCount; ++i) centroid[i] = lo + (hi - lo) * (static_cast<double>(i) + 0.5) / kCount;
  for (int iteration = 0; iteration < 200; ++iteration) {
    double change = 0;
    std::array<double, kCount> next;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double a = i == 0 ? 3 * lo : (centroid[i - 1] + centroid[i]) / 2,
                   b = i + 1 == kCount ? 3 * hi : (centroid[i] + centroid[i + 1]) / 2;
      const double moment = trapezoids(a, b, [&](double x) { return x * density(x); });
      const double mass = trapezoids(a, b, density);
      next[i] = mass > 1e-15 ? moment / mass : centroid[i];
      change = std::max(change, std::fabs(next[i] - centroid[i]));
    }
    if (change < 1e-10) break;
    centroid = next;
  }
  Codebook<kBits> book;
  for (std::size_t i = 0; i < kCount; ++i) book.centroids[i] = static_cast<float>(centroid[i]);
  for (std::size_t i = 0; i + 1 < kCount; ++i)
    book.midpoints[i] = static_cast<float>((centroid[i] + centroid[i + 1]) / 2);
  return book;
}

/// Made once for each number of channels.
template <int kBits>
const Codebook<kBits>& codebook(int channels) {
  static std::mutex mutex;
  static std::map<int, Codebook<kBits>> made;
  const std::lock_guard lock(mutex);
  const auto found = made.find(channels);
  return found != made.end() ? found->second : made.emplace(channels, lloyd_max<kBits>(channels)).first->second;
}

/// Replaces eight numbers by their centroids.
template <int kBits>
void nearest_centroids(const Codebook<kBits>& book, float* y) {
  typedef float Vec8 __attribute__((vector_size(32)));
  Vec8 position, centroid = Vec8{} + book.centroids[0];
  std::memcpy(&position, y, sizeof position);
  for (std::size_t i = 0; i < book.midpoints.size(); ++i)
    centroid = position >= book.midpoints[i] ? Vec8{} + book.centroids[i + 1] : centroid;
  std::memcpy(y, &centroid, sizeof centroid);
}

template <int kBits>
void apply_to_keys(const KvRows& rows, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  const int channels = rows.channels;
  const auto n = static_cast<std::size_t>(channels);
  const Codebook<kBits>& book = codebook<kBits>(channels);
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
    const float step = std::max((hi - lo) / static_cast<float>(kLevels<kBits> - 1), 1e-8f);
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

template <int kBits>
constexpr KvFormat turboquant(std::string_view name, std::string_view bytes_text, std::string_view rule) {
  return {.name = name,
          .bytes_text = bytes_text,
          .rule = rule,
          .source = "TurboQuant as vLLM ships it (turboquant_*)",
          .bytes = bytes<kBits>,
          .fault = fault,
          .apply = apply<kBits>};
}

}  // namespace

extern const KvFormat kv_turboquant4, kv_turboquant3;
constexpr KvFormat kv_turboquant4 = turboquant<4>(
    "turboquant4", "ceil(4C/8) + 2 (k), + 4 (v)",
    "k: norm, Hadamard rotation, 16 Lloyd-Max centroids, norm correction; v: 15 uniform steps from min to max");
constexpr KvFormat kv_turboquant3 = turboquant<3>(
    "turboquant3", "ceil(3C/8) + 2 (k), + 4 (v)",
    "k: norm, Hadamard rotation, 8 Lloyd-Max centroids, norm correction; v: 7 uniform steps from min to max");

}  // namespace attest
