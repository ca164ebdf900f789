// Plain reference implementations of all metrics of a row: the definitions of analysis/README.md as simple loops.
#pragma once

#include <map>
#include <string>

#include "tests/kernels/plain.h"

namespace attest::test {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline double plain_cosine(const Row& a, const Row& b) {
  if (dot(a, a) == 0 && dot(b, b) == 0) return 1;
  if (dot(a, a) == 0 || dot(b, b) == 0) return kNaN;
  return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
}

inline double plain_lse(const Row& scores) {
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double s : scores) sum += std::exp(s - max);
  return max + std::log(sum);
}

constexpr double kNoSink = -std::numeric_limits<double>::infinity();  ///< exp(kNoSink) = 0

/// Output of attention over the kept tokens with values [L][Dv]. The sink enters the softmax but has no value.
inline Row plain_output(const Row& scores, const std::vector<Row>& values, const Kept& kept, double& lse,
                        double sink = kNoSink) {
  Row chosen;
  for (std::size_t j = 0; j < scores.size(); ++j)
    if (kept[j]) chosen.push_back(scores[j]);
  if (sink != kNoSink) chosen.push_back(sink);
  Row out(values[0].size(), 0.0);
  if (chosen.empty()) {
    lse = -std::numeric_limits<double>::infinity();
    return out;
  }
  lse = plain_lse(chosen);
  for (std::size_t j = 0; j < scores.size(); ++j)
    for (std::size_t d = 0; d < out.size() && kept[j]; ++d) out[d] += std::exp(scores[j] - lse) * values[j][d];
  return out;
}

inline double plain_pearson(const Row& a, const Row& b) {
  const auto constant = [](const Row& x) {
    return x.empty() || *std::max_element(x.begin(), x.end()) == *std::min_element(x.begin(), x.end());
  };
  if (constant(a) || constant(b)) return kNaN;
  const auto centred = [](Row x) {
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
    for (double& value : x) value -= mean;
    return x;
  };
  const Row x = centred(a), y = centred(b);
  return dot(x, y) / std::sqrt(dot(x, x) * dot(y, y));
}

inline double plain_spearman(const Row& a, const Row& b) { return plain_pearson(plain_ranks(a), plain_ranks(b)); }

inline double plain_block_spearman(const Row& estimate, const Row& exact, std::size_t block) {
  const std::size_t blocks = estimate.size() / block;
  if (blocks < 2) return kNaN;
  Row a, b;
  for (std::size_t i = 0; i < blocks; ++i) {
    a.push_back(*std::max_element(estimate.begin() + static_cast<std::ptrdiff_t>(i * block),
                                  estimate.begin() + static_cast<std::ptrdiff_t>((i + 1) * block)));
    b.push_back(*std::max_element(exact.begin() + static_cast<std::ptrdiff_t>(i * block),
                                  exact.begin() + static_cast<std::ptrdiff_t>((i + 1) * block)));
  }
  return plain_spearman(a, b);
}

using Metrics = std::map<std::string, double>;

/// Metrics of the exact scores. `spans` marks the tokens of the sample's spans; empty if the sample has no spans.
inline Metrics plain_score_metrics(const Row& s, const Kept& spans, double sink = kNoSink) {
  Metrics m;
  const Row p = softmax(s);
  Row sorted = s;
  std::sort(sorted.rbegin(), sorted.rend());
  Row with_sink = s;
  if (sink != kNoSink) with_sink.push_back(sink);
  m["lse"] = plain_lse(with_sink);
  if (sink != kNoSink) m["sink_mass"] = softmax(with_sink).back();
  m["top1_top2_gap"] = s.size() > 1 ? sorted[0] - sorted[1] : kNaN;
  const double mean = std::accumulate(s.begin(), s.end(), 0.0) / static_cast<double>(s.size());
  double variance = 0, entropy = 0, mass = 0;
  for (std::size_t j = 0; j < s.size(); ++j) {
    variance += (s[j] - mean) * (s[j] - mean) / static_cast<double>(s.size());
    entropy -= p[j] > 0 ? p[j] * std::log(p[j]) : 0;
    if (!spans.empty() && spans[j]) mass += p[j];
  }
  m["score_std"] = std::sqrt(variance);
  m["entropy"] = entropy;
  if (!spans.empty()) m["span_mass"] = count(spans) > 0 ? mass : kNaN;
  return m;
}

/// Metrics of a kept set.
inline Metrics plain_kept_metrics(const Row& s, const Kept& kept, double delta, double fixed_delta, const Kept& spans) {
  Metrics m;
  const Row p = softmax(s);
  const double max = *std::max_element(s.begin(), s.end()), length = static_cast<double>(s.size());
  double mass = 0, dropped = -std::numeric_limits<double>::infinity(), salient = 0, hit = 0, missed = 0, fixed = 0,
         fixed_hit = 0, span_kept = 0, span_mass = 0;
  for (std::size_t j = 0; j < s.size(); ++j) {
    if (kept[j])
      mass += p[j];
    else
      dropped = std::max(dropped, s[j]);
    if (s[j] >= max - delta) {
      salient += 1;
      hit += kept[j];
      missed += kept[j] ? 0 : p[j];
    }
    if (s[j] >= max - fixed_delta) fixed += 1, fixed_hit += kept[j];
    if (!spans.empty() && spans[j] && kept[j]) span_kept += 1, span_mass += p[j];
  }
  m["mass_recall"] = mass;
  m["keep_ratio"] = count(kept) / length;
  m["salient_hit_rate"] = hit / salient;
  m["salient_hit_rate_fixed"] = fixed_hit / fixed;
  m["salient_ratio"] = salient / length;
  m["missed_salient_mass"] = missed;
  m["dropped_gap"] = count(kept) == length ? kNaN : max - dropped;
  if (!spans.empty()) {
    m["span_keep"] = count(spans) > 0 ? span_kept / count(spans) : kNaN;
    m["span_mass_kept"] = count(spans) > 0 ? span_mass : kNaN;
  }
  return m;
}

inline Metrics plain_output_metrics(const Row& o, double lse, const Row& exact, double exact_lse) {
  Row difference = o;
  for (std::size_t d = 0; d < o.size(); ++d) difference[d] -= exact[d];
  const double norm = std::sqrt(dot(exact, exact));
  return {{"recall", plain_cosine(o, exact)},
          {"output_error", norm > 0 ? std::sqrt(dot(difference, difference)) / norm : kNaN},
          {"lse_error", std::fabs(lse - exact_lse)}};
}

/// Metrics of an estimate that covers the first estimate.size() tokens.
inline Metrics plain_estimate_metrics(const Row& estimate, const Row& all_exact) {
  const Row exact(all_exact.begin(), all_exact.begin() + static_cast<std::ptrdiff_t>(estimate.size()));
  Metrics m{{"spearman", plain_spearman(estimate, exact)},
            {"pearson", plain_pearson(estimate, exact)},
            {"spearman_block16", plain_block_spearman(estimate, exact, 16)},
            {"spearman_block128", plain_block_spearman(estimate, exact, 128)}};
  const auto n = static_cast<double>(estimate.size());
  double mean = 0, variance = 0, max = 0;
  for (std::size_t j = 0; j < exact.size(); ++j)
    mean += (estimate[j] - exact[j]) / n, max = std::max(max, std::fabs(estimate[j] - exact[j]));
  for (std::size_t j = 0; j < exact.size(); ++j) variance += std::pow(estimate[j] - exact[j] - mean, 2) / n;
  m["scan_error_mean"] = n > 0 ? mean : kNaN;
  m["scan_error_std"] = n > 0 ? std::sqrt(variance) : kNaN;
  m["scan_error_max"] = n > 0 ? max : kNaN;
  return m;
}

/// Shares of the tokens with |e| >= lambda and with e <= -lambda.
inline std::pair<double, double> plain_tails(const Row& estimate, const Row& exact, double lambda) {
  double both = 0, lower = 0;
  for (std::size_t j = 0; j < estimate.size(); ++j) {
    const double e = estimate[j] - exact[j];
    both += std::fabs(e) >= lambda;
    lower += e <= -lambda;
  }
  const auto n = static_cast<double>(estimate.size());
  return n > 0 ? std::pair{both / n, lower / n} : std::pair{kNaN, kNaN};
}

}  // namespace attest::test
