// Options of kivi and values derived from them, shared by the CPU and CUDA code. Method and sources: kivi.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/quantize/kivi_groups.h"
#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"

namespace attest {

class KiviOptions {
 protected:
  explicit KiviOptions(OptionReader& reader) {
    quantizer_.bits = reader.number("bits", {2, 4}, {"of keys and values", "bits"});
    quantizer_.group = reader.integer("group", 32, 1, 1 << 20,
                                      {"keys share a scale along tokens, values along channels", "tokens or channels"});
    window_ =
        reader.integer("residual_length", 128, 1, 1 << 20, {"window of recent tokens in full precision", "tokens"});
    quantizer_.arithmetic = reader.enumeration<QuantArithmetic>(
        "quant_arith", {"float32", "dump"},
        {"rounding of the quantiser: none, or to the type of the dump as released"});
  }

  std::int64_t quantised_keys(std::int64_t visible) const { return (visible - 1) / window_ * window_; }
  std::int64_t quantised_values(std::int64_t visible) const {
    return std::max<std::int64_t>(0, visible - (window_ + 1));
  }

  double bytes(const KvShape& kv, std::int64_t visible) const {
    const double d = kv.head_dim, dv = kv.value_dim, length = static_cast<double>(visible), g = quantizer_.group;
    const auto nk = static_cast<double>(quantised_keys(visible)), nv = static_cast<double>(quantised_values(visible));
    const double shared = kv.values_in_keys ? (length - nk) * kv.value_bytes() : 0;  // a recent key has its value
    return nk * d * quantizer_.bits / 8 + nk / g * 4 * d + (length - nk) * kv.key_bytes() +
           nv * dv * quantizer_.bits / 8 + nv * (dv / g) * 4 + (length - nv) * kv.value_bytes() - shared;
  }

  KiviQuantizer quantizer_;
  int window_;
};

/// Defined in kivi_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_kivi(const KiviOptions& options);

}  // namespace attest
