// Learned sinks in kernels.
#pragma once

namespace attest {

/// lse_with_sink() of sinks.h.
__device__ inline double lse_with_sink(double lse, double sink) {
  const double maximum = fmax(lse, sink);
  return maximum + log(exp(lse - maximum) + exp(sink - maximum));
}

}  // namespace attest
