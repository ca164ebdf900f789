// A second, plain form of FFD's decode: simple loops in double on the CPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/decode/decode_problem.h"
#include "tests/kernels/plain.h"
#include "tests/kernels/plain_quantize.h"

namespace attest::test {

/// What a kernel's float32 arithmetic may change.
struct DecodeTolerance {
  /// Of a score, relative to scale * sum |q_d k_d|: float32 sums of up to 576 products, far below their worst case.
  double score = 0x1p-18;
  /// Of a softmax weight: set to half an ulp where weights are rounded to 16 bit before they meet the values.
  double weight = 0x1p-20;
};

/// What the rule does with the sub-blocks of one (sequence, KV head).
struct PlainSelection {
  Row scores;            ///< [full blocks * 128, G] s^
  Row best;              ///< [sub-blocks, G] largest s^
  Kept flags;            ///< [sub-blocks]
  Row margin;            ///< [sub-blocks] distance to the decision's border: negative if dropped
  Row needed;            ///< [sub-blocks] the smallest delta that keeps it, of topdelta
  double magnitude = 0;  ///< largest scale * sum |q_d k_d| of any visible token and head

  /// Sub-blocks that rounding of the scores may decide.
  std::vector<std::size_t> undecided(const DecodeTolerance& tolerance) const {
    std::vector<std::size_t> all;
    for (std::size_t c = 0; c < margin.size(); ++c)
      if (!(std::fabs(margin[c]) > 2 * tolerance.score * magnitude)) all.push_back(c);
    return all;
  }
};

struct PlainOutput {
  Row out;  ///< [G, Dv]
  Row lse;  ///< [G]
};

class PlainDecode {
 public:
  explicit PlainDecode(const DecodeProblem& given) : problem(given), blocks_(static_cast<std::size_t>(given.pairs())) {
    for (std::int64_t pair = 0; pair < problem.pairs(); ++pair)
      for (int b = 0; b < problem.full_blocks(pair); ++b) {
        std::vector<PlainFfdGroup> channels;
        for (int d = 0; d < problem.shape.head_dim; ++d) {
          Row column;
          for (int t = 0; t < kFfdBlock; ++t) column.push_back(problem.key(pair, b * kFfdBlock + t)[d]);
          channels.push_back(plain_ffd(column, problem.shape.bits, "fp8", false, problem.shape.element_type));
        }
        blocks_[static_cast<std::size_t>(pair)].push_back(std::move(channels));
      }
  }

  const DecodeProblem& problem;

  /// [D] of a full block.
  const std::vector<PlainFfdGroup>& block(std::int64_t pair, std::int64_t b) const {
    return blocks_[static_cast<std::size_t>(pair)][static_cast<std::size_t>(b)];
  }

  PlainSelection select(std::int64_t pair) const {
    const int group = problem.shape.group, blocks = problem.full_blocks(pair), parts = problem.sub_blocks(pair);
    constexpr double kLowest = -std::numeric_limits<double>::infinity();
    PlainSelection out;
    out.best.assign(static_cast<std::size_t>(parts * group), kLowest);
    for (int t = 0; t < blocks * kFfdBlock; ++t)
      for (int h = 0; h < group; ++h) {
        double magnitude = 0;
        out.scores.push_back(score(pair, h, t, Form::thumbnail, &magnitude));
        out.magnitude = std::max(out.magnitude, magnitude);
        double& best = out.best[static_cast<std::size_t>(t / problem.options.sub_block * group + h)];
        best = std::max(best, out.scores.back());
      }
    for (int t = blocks * kFfdBlock; t < problem.length(pair); ++t)
      for (int h = 0; h < group; ++h) {
        double magnitude = 0;
        score(pair, h, t, Form::exact, &magnitude);
        out.magnitude = std::max(out.magnitude, magnitude);
      }
    if (problem.options.rule == FfdDecodeRule::topk)
      keep_best(parts, group, out);
    else
      keep_by_delta(pair, parts, group, out);
    return out;
  }

  /// Attention over the flagged sub-blocks (refined keys), the tail (exact keys) and the sink.
  PlainOutput attend(std::int64_t pair, const Kept& flags) const {
    const int group = problem.shape.group, value_dim = problem.shape.value_dim;
    const int length = problem.length(pair), covered = problem.full_blocks(pair) * kFfdBlock;
    PlainOutput result;
    for (int h = 0; h < group; ++h) {
      Row s;
      std::vector<int> tokens;
      for (int t = 0; t < length; ++t) {
        if (t < covered && !flags[static_cast<std::size_t>(t / problem.options.sub_block)]) continue;
        tokens.push_back(t);
        s.push_back(score(pair, h, t, t < covered ? Form::refined : Form::exact));
      }
      if (!problem.sinks.empty())
        s.push_back(problem.sinks[static_cast<std::size_t>(pair % problem.shape.num_kv_heads * group + h)]);
      Row out(static_cast<std::size_t>(value_dim), 0.0);
      double lse = -std::numeric_limits<double>::infinity();
      if (!s.empty()) {
        const double maximum = *std::max_element(s.begin(), s.end());
        double sum = 0;
        for (double x : s) sum += std::exp(x - maximum);
        lse = maximum + std::log(sum);
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          const double weight = std::exp(s[i] - lse);
          for (int d = 0; d < value_dim; ++d)
            out[static_cast<std::size_t>(d)] += weight * problem.value(pair, tokens[i])[d];
        }
      }
      result.out.insert(result.out.end(), out.begin(), out.end());
      result.lse.push_back(lse);
    }
    return result;
  }

 private:
  enum class Form { thumbnail, refined, exact };

  double score(std::int64_t pair, int h, int t, Form form, double* magnitude = nullptr) const {
    double sum = 0, size = 0;
    for (int d = 0; d < problem.shape.head_dim; ++d) {
      double key = 0;
      if (form == Form::exact) {
        key = problem.key(pair, t)[d];
      } else {
        const PlainFfdGroup& channel = block(pair, t / kFfdBlock)[static_cast<std::size_t>(d)];
        const auto i = static_cast<std::size_t>(t % kFfdBlock);
        key = channel.thumbnail[i] + (form == Form::refined ? channel.residual[i] : 0);
      }
      const double term = problem.query(pair, h)[d] * key;
      sum += term;
      size += std::fabs(term);
    }
    const double scale = problem.options.scale;
    if (magnitude != nullptr) *magnitude = scale * size;
    return scale * sum;
  }

  double pseudo_max(std::int64_t pair, int h, int parts, int group, const Row& best) const {
    const FfdDecodeOptions& options = problem.options;
    const int blocks = problem.full_blocks(pair), per_block = kFfdBlock / options.sub_block;
    double peak = -std::numeric_limits<double>::infinity();
    if (options.pseudo_max == FfdDecodePseudoMax::exact) {
      for (int t = 0; t < kFfdBlock; ++t) {
        if (options.sink_blocks > 0) peak = std::max(peak, score(pair, h, t, Form::exact));
        if (options.local_blocks > 0) peak = std::max(peak, score(pair, h, (blocks - 1) * kFfdBlock + t, Form::exact));
      }
      return peak;
    }
    for (int c = 0; c < parts; ++c) {
      const int b = c / per_block;
      if (options.pseudo_max == FfdDecodePseudoMax::global || b < options.sink_blocks ||
          b >= blocks - options.local_blocks)
        peak = std::max(peak, best[static_cast<std::size_t>(c * group + h)]);
    }
    return peak;
  }

  void keep_by_delta(std::int64_t pair, int parts, int group, PlainSelection& out) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double delta = problem.delta[static_cast<std::size_t>(pair % problem.shape.num_kv_heads)];
    out.needed.assign(static_cast<std::size_t>(parts), kInfinity);
    for (int h = 0; h < group && parts > 0; ++h) {
      const double peak = pseudo_max(pair, h, parts, group, out.best);
      for (int c = 0; c < parts; ++c) {
        double& needed = out.needed[static_cast<std::size_t>(c)];
        needed = std::min(needed, peak - out.best[static_cast<std::size_t>(c * group + h)]);
      }
    }
    for (double needed : out.needed) {
      out.flags.push_back(needed <= delta);
      out.margin.push_back(delta - needed);
    }
  }

  void keep_best(int parts, int group, PlainSelection& out) const {
    Row best(static_cast<std::size_t>(parts));
    for (int c = 0; c < parts; ++c) {
      const auto first = out.best.begin() + c * group;
      best[static_cast<std::size_t>(c)] = *std::max_element(first, first + group);
    }
    const auto n = static_cast<std::size_t>(problem.options.keep_sub_blocks);
    out.flags = best_n(best, static_cast<double>(n));
    const std::vector<std::size_t> order = descending(best);
    for (std::size_t c = 0; c < best.size(); ++c)
      out.margin.push_back(n >= best.size() ? std::numeric_limits<double>::infinity()
                                            : best[c] - best[order[out.flags[c] ? n : n - 1]]);
  }

  std::vector<std::vector<std::vector<PlainFfdGroup>>> blocks_;  // [pairs][full blocks][D]
};

/// Sets every KV head's delta so that about `share` of its sub-blocks are kept, midway between two sub-blocks that
/// rounding cannot exchange.
inline void calibrate_delta(DecodeProblem& problem, double share) {
  const PlainDecode plain(problem);
  for (int head = 0; head < problem.shape.num_kv_heads; ++head) {
    Row needed;
    double magnitude = 0;
    for (int sequence = 0; sequence < problem.shape.batch; ++sequence) {
      const PlainSelection selection =
          plain.select(static_cast<std::int64_t>(sequence) * problem.shape.num_kv_heads + head);
      needed.insert(needed.end(), selection.needed.begin(), selection.needed.end());
      magnitude = std::max(magnitude, selection.magnitude);
    }
    if (needed.empty()) continue;
    std::sort(needed.begin(), needed.end());
    const double wanted = share * static_cast<double>(needed.size());
    double delta = std::max(needed.back(), 0.0) + 1, nearest = std::fabs(static_cast<double>(needed.size()) - wanted);
    for (std::size_t i = 1; i < needed.size(); ++i) {
      const double middle = (needed[i - 1] + needed[i]) / 2, off = std::fabs(static_cast<double>(i) - wanted);
      if (middle <= 0 || needed[i] - needed[i - 1] < 8 * DecodeTolerance{}.score * magnitude || off >= nearest)
        continue;
      delta = middle;
      nearest = off;
    }
    problem.delta[static_cast<std::size_t>(head)] = static_cast<float>(delta);
  }
}

}  // namespace attest::test
