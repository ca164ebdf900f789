// kivi on the device. Method and sources: kivi.cpp.
#include "kernels/attention/score_tiles.cuh"
#include "kernels/quantize/kivi_groups_cuda.cuh"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/kivi_options.h"

namespace attest {
namespace {

class CudaKivi final : public CudaSelector, KiviOptions {
 public:
  explicit CudaKivi(const KiviOptions& options) : KiviOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid>, CudaSelection& out) const override {
    KiviQuantizer quantizer = quantizer_;
    quantizer.element_type = chunk.kv.type;
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    out.num_approximate = RowCounts(chunk, [&](std::int64_t visible) { return quantised_values(visible); });
    auto* scores = chunk.take_rows<float>();
    float* low = chunk.take_low();
    out.estimate = out.read_scores = scores;
    out.estimate_low = low;
    const std::size_t groups =
        static_cast<std::size_t>(chunk.num_keys) * static_cast<std::size_t>(chunk.kv.value_dim / quantizer.group);
    auto* value_groups = chunk.take<float2>(groups);
    cuda_kivi_value_groups(quantizer, chunk.kv, chunk.num_keys, value_groups, chunk.stream);
    out.value_groups = value_groups;
    out.value_quantizer = quantizer;

    const DeviceArena::Scope scope(*chunk.arena);
    const RowCounts quantised(chunk, [&](std::int64_t visible) { return quantised_keys(visible); });
    const KiviKeys form = cuda_kivi_keys(quantizer, chunk.rows, chunk.kv, *chunk.arena, chunk.stream);
    const ScoreTargets targets{
        .limit = quantised.device, .exact = chunk.exact, .scores = scores, .exact_low = chunk.exact_low, .low = low};
    score_rows(chunk.rows, chunk.queries, chunk.kv, form, targets, chunk.stream);
    out.io = group_costs(chunk, [&](std::int64_t visible) {
      return IoCost{.fixed = bytes(chunk.kv.shape(), visible), .per_kept_token = 0, .free_tokens = 0};
    });
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_kivi(const KiviOptions& options) {
  return std::make_shared<CudaKivi>(options);
}

}  // namespace attest
