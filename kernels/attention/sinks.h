// Learned sinks (gpt-oss): a logit per query head that joins the softmax and has no value.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/attention/setting_outputs.h"
#include "kernels/kv_head.h"

namespace attest {

/// log(exp(lse) + exp(sink)): a log-sum-exp over keys once the sink has joined. lse may be -inf.
inline double lse_with_sink(double lse, double sink) {
  const double most = lse > sink ? lse : sink;
  return most + std::log(std::exp(lse - most) + std::exp(sink - most));
}

/// Outputs and log-sum-exps over keys become those with the head's sinks, if it has any: LSE' = log(exp(b) + exp(LSE)),
/// o' = exp(LSE - LSE') o. Where nothing is kept they are b and 0.
void add_sinks(const KvHead& head, std::vector<SettingOutputs>& outputs);

}  // namespace attest
