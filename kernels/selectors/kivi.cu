// kivi on the device; the method and its sources stand in kivi.cpp.
#include <algorithm>

#include "kernels/quantize/key_ranges.h"
#include "kernels/quantize/kivi_keys.cuh"
#include "kernels/selectors/cuda_registry.h"

namespace attest {
namespace {

class CudaKivi final : public CudaSelector {
 public:
  explicit CudaKivi(OptionReader& reader) {
    quantizer_.bits = reader.number("bits", {2, 4});
    quantizer_.group = reader.integer("group", 32, 1, 1 << 20);
    window_ = reader.integer("residual_length", 128, 1, 1 << 20);
    quantizer_.arithmetic = reader.enumeration<QuantArithmetic>("quant_arith", {"float32", "dump"});
  }

  void select(const CudaChunk& chunk, std::span<const AscendingGrid>, CudaSelection& out) const override {
    KiviQuantizer quantizer = quantizer_;
    quantizer.element_type = chunk.kv.type;
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    out.num_approximate = RowCounts(chunk, [&](std::int64_t visible) { return quantised_values(visible); });
    auto* scores = chunk.take_rows<float>();
    float* low = chunk.take_low();
    out.estimate = out.read_scores = scores;
    out.estimate_low = low;
    const std::size_t groups = static_cast<std::size_t>(chunk.num_keys) * static_cast<std::size_t>(chunk.kv.value_dim / quantizer.group);
    auto* value_groups = chunk.take<float2>(groups);
    kivi_value_groups(quantizer, chunk.kv, chunk.num_keys, value_groups, chunk.stream);
    out.value_groups = value_groups;
    out.value_quantizer = quantizer;

    const DeviceArena::Scope scope(*chunk.arena);
    const RowCounts quantised(chunk, [&](std::int64_t visible) { return quantised_keys(visible); });
    KiviKeys form{.quantizer = quantizer, .padded = padded_channels(chunk.kv.head_dim)};
    form.per_params = static_cast<std::int64_t>(segments_of(chunk.rows.max_length, quantizer.group)) * form.padded;
    const std::size_t table = static_cast<std::size_t>(chunk.rows.num_origins) * static_cast<std::size_t>(form.per_params);
    float *lowest = chunk.take<float>(table), *steps = chunk.take<float>(table);
    kivi_key_groups(quantizer, chunk.rows, chunk.kv, lowest, steps, chunk.stream);
    form.lowest = lowest;
    form.scales = steps;
    const ScoreTargets targets{.limit = quantised.device, .exact = chunk.exact, .scores = scores, .exact_low = chunk.exact_low, .low = low};
    score_rows(chunk.rows, chunk.queries, chunk.kv, form, targets, chunk.stream);
    out.io = group_costs(chunk, [&](std::int64_t visible) { return IoCost{.fixed = bytes(chunk.kv, visible), .per_kept_token = 0, .free_tokens = 0}; });
  }

 private:
  std::int64_t quantised_keys(std::int64_t visible) const { return (visible - 1) / window_ * window_; }
  std::int64_t quantised_values(std::int64_t visible) const { return std::max<std::int64_t>(0, visible - (window_ + 1)); }

  double bytes(const DeviceKeyValues& kv, std::int64_t visible) const {
    const double d = kv.head_dim, dv = kv.value_dim, length = static_cast<double>(visible), g = quantizer_.group;
    const auto nk = static_cast<double>(quantised_keys(visible)), nv = static_cast<double>(quantised_values(visible));
    return nk * d * quantizer_.bits / 8 + nk / g * 4 * d + (length - nk) * 2 * d +
           nv * dv * quantizer_.bits / 8 + nv * (dv / g) * 4 + (length - nv) * 2 * dv;
  }

  KiviQuantizer quantizer_;
  int window_;
};

}  // namespace

std::unique_ptr<CudaSelector> make_cuda_kivi(OptionReader& reader) { return std::make_unique<CudaKivi>(reader); }

}  // namespace attest
