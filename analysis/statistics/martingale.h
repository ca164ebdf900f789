// Tests that may be looked at after every observation: capital that a fair game cannot make grow. Whatever the moment
// of looking, it reaches 1 / alpha with probability alpha at most (Ville's inequality).
#pragma once

#include <cstdint>
#include <vector>

namespace attest {

/// Bets that the mean of losses in [0, 1] exceeds `allowed`, which is in (0, 1): the mean of fixed bets, since the best
/// one is not known (Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 2023).
class LossMartingale {
 public:
  explicit LossMartingale(double allowed);

  void add(double loss);
  double log_capital() const;
  double log_largest() const { return largest_; }  ///< so far

 private:
  double allowed_;
  std::vector<double> bets_, log_capitals_;
  double largest_ = 0;
};

/// Bets that scores are not exchangeable with those of the beginning. As long as they are, the rank of each among those
/// before it is uniform and independent of the ranks before. Ranks enter power martingales of conformal p-values (Vovk,
/// Nouretdinov and Gammerman, Testing exchangeability on-line, ICML 2003), half of the capital on scores that grow,
/// half on scores that shrink. A p-value is drawn within its rank; taken instead is the mean over such draws, so that
/// no luck of the draw is evidence, which among few scores would be most of it.
class DriftMartingale {
 public:
  /// `seed`: of the order among equal scores.
  DriftMartingale(std::vector<double> scores, std::uint64_t seed);

  void add(double score);
  double log_capital() const;
  double log_largest() const { return largest_; }
  /// Whether growing scores have made more of the capital than shrinking ones.
  bool grows() const { return log_grow() >= log_shrink(); }

 private:
  double log_grow() const;
  double log_shrink() const;

  std::vector<double> scores_;  ///< ascending
  std::vector<double> powers_, grow_, shrink_;
  std::uint64_t seed_, drawn_ = 0;
  double largest_ = 0;
};

}  // namespace attest
