// 200 iterations or a change below 1e-10, moments by the trapezoid rule in 200 steps, outer edges at 3 times the first
// and last edge of the start. In the order of the released code: the middle one of the midpoints is 0 but for rounding,
// and its sign decides the code of a channel that is 0 after the rotation.
#include "kernels/kv_formats/turboquant_codebook.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>

namespace attest {
namespace {

template <int kBits>
TurboquantCodebook<kBits> lloyd_max(int channels) {
  constexpr std::size_t kCount = TurboquantCodebook<kBits>::kLevels;
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
  TurboquantCodebook<kBits> book;
  for (std::size_t i = 0; i < kCount; ++i) book.centroids[i] = static_cast<float>(centroid[i]);
  for (std::size_t i = 0; i + 1 < kCount; ++i)
    book.midpoints[i] = static_cast<float>((centroid[i] + centroid[i + 1]) / 2);
  return book;
}

}  // namespace

template <int kBits>
const TurboquantCodebook<kBits>& turboquant_codebook(int channels) {
  static std::mutex mutex;
  static std::map<int, TurboquantCodebook<kBits>> made;
  const std::lock_guard lock(mutex);
  const auto found = made.find(channels);
  return found != made.end() ? found->second : made.emplace(channels, lloyd_max<kBits>(channels)).first->second;
}
template const TurboquantCodebook<3>& turboquant_codebook<3>(int channels);
template const TurboquantCodebook<4>& turboquant_codebook<4>(int channels);

}  // namespace attest
