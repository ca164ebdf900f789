// Capital of fixed bets and of powers of p-values.
#include "analysis/statistics/martingale.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace attest {
namespace {

constexpr int kBets = 24;

/// The logarithm of the mean of exp(x).
double log_mean_exp(const std::vector<double>& logs) {
  const double maximum = std::ranges::max(logs);
  const double sum = std::accumulate(logs.begin(), logs.end(), 0.0,
                                     [&](double so_far, double x) { return so_far + std::exp(x - maximum); });
  return maximum + std::log(sum / static_cast<double>(logs.size()));
}

}  // namespace

LossMartingale::LossMartingale(double allowed) : allowed_(allowed), log_capitals_(kBets) {
  // A loss of 0 must leave something: bet < 1 / allowed. More of the bets are small, for losses just above.
  for (int i = 0; i < kBets; ++i) bets_.push_back(std::pow((i + 0.5) / kBets, 2) / allowed);
}

void LossMartingale::add(double loss) {
  for (std::size_t i = 0; i < bets_.size(); ++i) log_capitals_[i] += std::log1p(bets_[i] * (loss - allowed_));
  largest_ = std::max(largest_, log_capital());
}

double LossMartingale::log_capital() const { return log_mean_exp(log_capitals_); }

DriftMartingale::DriftMartingale(std::vector<double> scores, std::uint64_t seed)
    : scores_(std::move(scores)), seed_(seed) {
  std::ranges::sort(scores_);
  for (int i = 1; i < 10; ++i) powers_.push_back(i / 10.0);
  grow_.resize(powers_.size());
  shrink_.resize(powers_.size());
}

void DriftMartingale::add(double score) {
  const auto [first, last] = std::ranges::equal_range(scores_, score);
  const auto equal = static_cast<std::uint64_t>(last - first) + 1;
  auto larger = static_cast<std::uint64_t>(scores_.end() - last);
  ++drawn_;
  if (equal > 1) larger += std::mt19937_64(seed_ + 0x9E3779B97F4A7C15U * drawn_)() % equal;
  scores_.insert(last, score);
  // From the largest on, of n: the p-value is anywhere in the n-th part [larger, larger + 1] / n.
  const auto n = static_cast<double>(scores_.size()), above = static_cast<double>(larger), below = n - 1 - above;
  const auto bet = [&](double part, std::vector<double>& capitals) {
    // powers_ are the multiples of the first.
    const double low = std::pow(part / n, powers_.front()), high = std::pow((part + 1) / n, powers_.front());
    double low_power = 1, high_power = 1;
    for (double& capital : capitals) capital += std::log(n * ((high_power *= high) - (low_power *= low)));
  };
  bet(above, grow_);
  bet(below, shrink_);
  largest_ = std::max(largest_, log_capital());
}

double DriftMartingale::log_grow() const { return log_mean_exp(grow_); }
double DriftMartingale::log_shrink() const { return log_mean_exp(shrink_); }
double DriftMartingale::log_capital() const { return log_mean_exp({log_grow(), log_shrink()}); }

}  // namespace attest
