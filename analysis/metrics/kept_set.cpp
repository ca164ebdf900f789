// Metrics of the kept set on the CPU: histograms over entry levels, whose prefix sums give the total of every setting.
#include "analysis/metrics/kept_set.h"

#include <algorithm>
#include <limits>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

/// Bins 0 .. S; bin S counts tokens that no setting keeps. prefix()[i] is the sum of bins 0 .. i: the tokens that
/// setting i keeps.
struct Histogram {
  std::vector<double> bins;
  explicit Histogram(int settings) : bins(static_cast<std::size_t>(settings) + 1, 0.0) {}
  void add(std::size_t level, double amount) { bins[level] += amount; }
  std::vector<double> prefix() const {
    std::vector<double> sums(bins.size() - 1);
    double sum = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sum += bins[i];
    return sums;
  }
};

void collect_all_tokens(const SelectorRow& row, KeptTotals& totals) {
  const auto settings = static_cast<std::size_t>(row.num_settings);
  Histogram tokens(row.num_settings), mass(row.num_settings);
  std::vector<double> max(settings + 1, kLowest);
  const std::span<const Level> levels = row.levels;
  for (std::size_t j = 0; j < levels.size();) {
    const Level level = levels[j];
    const std::size_t begin = j;
    double run_mass = 0, run_max = kLowest;
    for (; j < levels.size() && levels[j] == level; ++j) {
      run_mass += row.exact->probabilities[j];
      run_max = std::max(run_max, row.exact->scores[j]);
    }
    tokens.add(level, static_cast<double>(j - begin));
    mass.add(level, run_mass);
    max[level] = std::max(max[level], run_max);
  }
  totals.kept_tokens = tokens.prefix();
  totals.kept_mass = mass.prefix();
  totals.dropped_max.resize(settings);
  double dropped = max[settings];
  for (std::size_t i = settings; i-- > 0;) {
    totals.dropped_max[i] = dropped;
    dropped = std::max(dropped, max[i]);
  }
}

void collect_salient_tokens(const SelectorRow& row, KeptTotals& totals) {
  Histogram tokens(row.num_settings), kept(row.num_settings), fixed_kept(row.num_settings);
  Histogram mass(row.num_settings), kept_mass(row.num_settings);
  std::vector<double> thresholds;
  for (double delta : row.salient_deltas) thresholds.push_back(row.exact->max - delta);
  const double fixed = row.exact->max - row.fixed_salient_delta;
  const double lowest = std::min(fixed, thresholds.back());
  double fixed_tokens = 0;
  for (std::uint32_t j : row.exact->order) {
    const double s = row.exact->scores[j];
    if (s < lowest) break;
    const std::size_t level = row.levels[j];
    if (s >= fixed) {
      fixed_tokens += 1;
      fixed_kept.add(level, 1);
    }
    const auto first = static_cast<std::size_t>(
        std::partition_point(thresholds.begin(), thresholds.end(), [s](double t) { return s < t; }) -
        thresholds.begin());
    if (first == thresholds.size()) continue;
    tokens.add(first, 1);
    kept.add(std::max(first, level), 1);
    mass.add(first, row.exact->probabilities[j]);
    kept_mass.add(std::max(first, level), row.exact->probabilities[j]);
  }
  totals.fixed_salient_tokens = fixed_tokens;
  totals.fixed_salient_kept = fixed_kept.prefix();
  totals.salient_tokens = tokens.prefix();
  totals.salient_kept = kept.prefix();
  const std::vector<double> all = mass.prefix(), held = kept_mass.prefix();
  totals.salient_missed_mass.resize(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool complete = totals.salient_kept[i] == totals.salient_tokens[i];
    totals.salient_missed_mass[i] = complete ? 0 : std::max(0.0, all[i] - held[i]);
  }
}

void collect_span_tokens(const SelectorRow& row, KeptTotals& totals) {
  Histogram tokens(row.num_settings), mass(row.num_settings);
  for (std::uint32_t j : row.exact->span_tokens) {
    tokens.add(row.levels[j], 1);
    mass.add(row.levels[j], row.exact->probabilities[j]);
  }
  totals.span_kept_tokens = tokens.prefix();
  totals.span_kept_mass = mass.prefix();
}

void divide(const std::vector<double>& numerators, double denominator, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = denominator > 0 ? numerators[i] / denominator : kNaN;
}

}  // namespace

const KeptTotals& kept_totals(const SelectorRow& row) {
  if (!row.kept) {
    KeptTotals& totals = row.kept.emplace();
    collect_all_tokens(row, totals);
    collect_salient_tokens(row, totals);
    if (row.exact->sample_has_spans) collect_span_tokens(row, totals);
  }
  return *row.kept;
}

void mass_recall(const SelectorRow& row, std::span<double> out) {
  std::ranges::copy(kept_totals(row).kept_mass, out.begin());
}

void keep_ratio(const SelectorRow& row, std::span<double> out) {
  divide(kept_totals(row).kept_tokens, static_cast<double>(row.levels.size()), out);
}

void salient_hit_rate(const SelectorRow& row, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = kept_totals(row).salient_kept[i] / kept_totals(row).salient_tokens[i];
}

void salient_hit_rate_fixed(const SelectorRow& row, std::span<double> out) {
  divide(kept_totals(row).fixed_salient_kept, kept_totals(row).fixed_salient_tokens, out);
}

void salient_ratio(const SelectorRow& row, std::span<double> out) {
  divide(kept_totals(row).salient_tokens, static_cast<double>(row.levels.size()), out);
}

void missed_salient_mass(const SelectorRow& row, std::span<double> out) {
  std::ranges::copy(kept_totals(row).salient_missed_mass, out.begin());
}

void dropped_gap(const SelectorRow& row, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = kept_totals(row).dropped_max[i] == kLowest ? kNaN : row.exact->max - kept_totals(row).dropped_max[i];
}

void span_keep(const SelectorRow& row, std::span<double> out) {
  divide(kept_totals(row).span_kept_tokens, static_cast<double>(row.exact->span_tokens.size()), out);
}

void span_mass_kept(const SelectorRow& row, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = row.exact->span_tokens.empty() ? kNaN : kept_totals(row).span_kept_mass[i];
}

}  // namespace attest
