// p-values of a mean of bounded losses.
#include "analysis/statistics/mean_bound.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "analysis/statistics/binomial.h"

namespace attest {
namespace {

/// Kullback-Leibler divergence of two Bernoulli distributions.
double divergence(double r, double a) {
  const double ones = r > 0 ? r * std::log(r / a) : 0, zeros = r < 1 ? (1 - r) * std::log((1 - r) / (1 - a)) : 0;
  return ones + zeros;
}

double hoeffding_bentkus(std::span<const double> losses, double a) {
  const auto n = static_cast<std::int64_t>(losses.size());
  const double r = mean_loss(losses), count = static_cast<double>(n);
  const double hoeffding = std::exp(-count * divergence(std::min(r, a), a));
  // A sum of losses of 0 and 1 may be a rounding error above a whole number.
  const auto maximum = static_cast<std::int64_t>(std::ceil(count * r - 1e-9));
  return std::min({1.0, hoeffding, std::numbers::e * binomial_cdf(maximum, n, a)});
}

/// Whether losses of 0 reach 1 / alpha with bets of 1 only after half of the observations or later. Then hardly any
/// loss can be certified, and bets above the paper's 1 certify first. The number of observations is known before the
/// first bet, so that the choice is a valid one.
bool are_few(std::size_t count, double a, double alpha) {
  return static_cast<double>(count) * std::log1p(a) < 2 * std::log(1 / alpha);
}

/// Predictable plug-in bets (Waudby-Smith and Ramdas, section 3.2; constants as in Learn then Test, appendix).
double betting(std::span<const double> losses, double a, double alpha) {
  const bool few = are_few(losses.size(), a, alpha);
  // A loss of 1 must not take more than the capital: bet <= 1 / (1 - a).
  const double maximum = few ? (1 - 1e-9) / (1 - a) : 1, n = static_cast<double>(losses.size());
  bool only_zeros = few;  // of few losses: as long as they are 0, the largest bet needs as few as any test can
  double log_capital = 0, largest = 0, sum = 0.5, squares = 0.25, variance = 0.25, seen = 1;
  for (const double loss : losses) {
    const double bet = only_zeros ? maximum : std::min(maximum, std::sqrt(2 * std::log(1 / alpha) / (n * variance)));
    log_capital += std::log1p(-bet * (loss - a));
    largest = std::max(largest, log_capital);
    only_zeros = only_zeros && loss == 0;
    seen += 1;
    sum += loss;
    const double distance = loss - sum / seen;
    squares += distance * distance;
    variance = squares / seen;
  }
  return std::exp(-largest);
}

double bootstrap(std::span<const double> losses, double a, std::uint64_t seed) {
  constexpr int kResamples = 2000;
  std::mt19937_64 random(seed);
  int above = 0;
  for (int r = 0; r < kResamples; ++r) {
    double sum = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) sum += losses[random() % losses.size()];
    if (sum > a * static_cast<double>(losses.size())) ++above;
  }
  return static_cast<double>(above) / kResamples;
}

}  // namespace

double mean_loss(std::span<const double> losses) {
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / static_cast<double>(losses.size());
}

double mean_p_value(MeanBound bound, std::span<const double> losses, double allowed, double alpha, std::uint64_t seed) {
  if (losses.empty()) return 1;
  switch (bound) {
    case MeanBound::hb:
      return hoeffding_bentkus(losses, allowed);
    case MeanBound::wsr:
      return betting(losses, allowed, alpha);
    case MeanBound::bootstrap:
      break;
  }
  return bootstrap(losses, allowed, seed);
}

}  // namespace attest
