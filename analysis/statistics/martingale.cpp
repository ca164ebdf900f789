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
  const double most = std::ranges::max(logs);
  const double sum = std::accumulate(logs.begin(), logs.end(), 0.0,
                                     [&](double so_far, double x) { return so_far + std::exp(x - most); });
  return most + std::log(sum / static_cast<double>(logs.size()));
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

double DriftMartingale::add(double score) {
  const auto [first, last] = std::ranges::equal_range(scores_, score);
  const auto equal = static_cast<double>(last - first) + 1, larger = static_cast<double>(scores_.end() - last);
  std::mt19937_64 random(seed_ + 0x9E3779B97F4A7C15U * ++drawn_);
  const double u = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
  const double p = (larger + u * equal) / (static_cast<double>(scores_.size()) + 1);
  scores_.insert(last, score);
  for (std::size_t i = 0; i < powers_.size(); ++i) {
    const double power = powers_[i];
    grow_[i] += std::log(power) + (power - 1) * std::log(p);
    shrink_[i] += std::log(power) + (power - 1) * std::log1p(-p);
  }
  largest_ = std::max(largest_, log_capital());
  return p;
}

double DriftMartingale::log_grow() const { return log_mean_exp(grow_); }
double DriftMartingale::log_shrink() const { return log_mean_exp(shrink_); }
double DriftMartingale::log_capital() const { return log_mean_exp({log_grow(), log_shrink()}); }

}  // namespace attest
