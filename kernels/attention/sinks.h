// Learned sinks (gpt-oss): one logit per query head that is part of the softmax denominator and has no value.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/attention/setting_outputs.h"
#include "kernels/base/kv_head.h"

namespace attest {

/// log(exp(lse) + exp(sink)): adds the sink to a log-sum-exp over keys. lse may be -inf.
inline double lse_with_sink(double lse, double sink) {
  const double maximum = lse > sink ? lse : sink;
  return maximum + std::log(std::exp(lse - maximum) + std::exp(sink - maximum));
}

/// Adds the head's sinks b, if any, to outputs and log-sum-exps over keys. If no token is kept, LSE' = b and o' = 0.
///   LSE' = log(exp(b) + exp(LSE))
///   o' = exp(LSE - LSE') o
void add_sinks(const KvHead& head, std::vector<SettingOutputs>& outputs);

}  // namespace attest
