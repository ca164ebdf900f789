// Scratch memory and launches of the fused decode.
#include <climits>
#include <vector>

#include "dumps/base/error.h"
#include "kernels/decode/fused/ffd_fused_cuda.h"
#include "kernels/decode/fused/ffd_fused_launch.cuh"
#include "kernels/device/scratch_layout.h"

namespace attest {
namespace {

/// Items of a CTA above which an even deal of the kept tiles saves more, where heads differ, than it costs where they
/// do not. Where many CTAs have a pair, each has little of a head that keeps much.
int max_static_items(const FfdFusedParams& p) {
  constexpr int kOfFewCtas = 96, kOfManyCtas = 160, kMany = 8;
  return p.ctas_per_pair >= kMany ? kOfManyCtas : kOfFewCtas;
}

/// Compiled for the same architectures as the kernels, which do nothing in code for one before 9.0.
__global__ void compiled_as_they_are() {}

void take_counts(const FfdCacheShape& shape, ScratchLayout& layout, FfdFusedParams& p) {
  layout.take(p.barrier, 1);
  layout.take(p.pair_kept, shape.pairs());
  layout.take(p.pair_arrivals, shape.pairs() * kFfdWarps);
}

void launch(const FfdCacheShape& shape, const FfdFusedParams& p, cudaStream_t stream) {
  const bool half = shape.element_type == ElementType::float16;
  FfdLaunch* const chosen = p.decides_late() ? (half ? launch_ffd_late_float16 : launch_ffd_late_bfloat16)
                                             : (half ? launch_ffd_float16 : launch_ffd_bfloat16);
  chosen(shape, p, stream);
}

/// Pairs of a CTA if nearly all CTAs have as many whole ones, whose kept tiles are dealt anew; else 0.
int whole_pairs(const FfdFusedParams& p) {
  const int ctas = ffd_fused_ctas(), pairs = static_cast<int>(p.pairs()), each = (pairs + ctas - 1) / ctas;
  return pairs > ctas && nearly_all(pairs, each * ctas) && is_balanced(p) && p.max_blocks <= kFfdSharedMasks ? each : 0;
}

/// Whole CTAs are dealt to pairs: nearly all CTAs have as many blocks.
bool have_whole_ctas(const FfdFusedParams& p) {
  return nearly_all(static_cast<int>(p.pairs()) * p.ctas_per_pair, ffd_fused_ctas()) &&
         max_ffd_items(p) <= kFfdSharedMasks;
}

FfdDeal even_deal(const FfdFusedParams& p) {
  return deal_of(std::vector(static_cast<std::size_t>(p.pairs()), p.ctas_per_pair));
}

/// The call can follow the deal: it is for this launch, and each CTA has room for the masks of its blocks.
bool can_follow(const FfdDeal& deal, const FfdFusedParams& p) {
  return p.cache.equal_lengths && p.options.balance != FfdBalance::balanced && deal.ctas > 0 &&
         deal.ctas <= ffd_fused_ctas() && deal.of_cta[deal.ctas - 1].pair + 1 == p.pairs() &&
         p.max_blocks / deal.min_per_pair + 1 <= kFfdSharedMasks;
}

/// A decode in one launch.
void launch_fused(const FfdCacheShape& shape, FfdFusedParams p, const FfdDeal* wanted, cudaStream_t stream) {
  const bool half = shape.element_type == ElementType::float16;
  if (p.decides_late() || !is_common_ffd_shape(shape)) return launch(shape, p, stream);
  const bool dealt = wanted != nullptr && can_follow(*wanted, p);
  if (!dealt && p.options.balance == FfdBalance::automatic &&
      (half ? launch_ffd_clustered_float16 : launch_ffd_clustered_bfloat16)(shape, p, stream))
    return;
  if (p.cache.equal_lengths) {
    FfdOneLengthLaunch* const launch = half ? launch_ffd_one_length_float16 : launch_ffd_one_length_bfloat16;
    if (dealt) return launch(shape, p, *wanted, stream);
    p.pairs_per_cta = whole_pairs(p);
    if (p.pairs_per_cta > 0) return launch(shape, p, {}, stream);
    if (have_whole_ctas(p)) return launch(shape, p, is_balanced(p) ? FfdDeal() : even_deal(p), stream);
  }
  if (is_balanced(p)) return launch(shape, p, stream);
  (half ? launch_ffd_static_float16 : launch_ffd_static_bfloat16)(shape, p, stream);
}

FfdFusedParams params_of(const FfdCacheShape& shape, const FfdCacheView& cache, std::byte* scratch,
                         const FfdDecodeOptions& options) {
  FfdFusedParams p;
  p.cache = cache;
  p.options = options;
  p.batch = shape.batch, p.num_kv_heads = shape.num_kv_heads, p.group = shape.group;
  p.max_blocks = shape.max_blocks();
  p.ctas_per_pair = static_cast<int>(ffd_fused_ctas() / p.pairs());
  ffd_fused_scratch(shape, scratch, p);
  return p;
}

}  // namespace

bool has_ffd_fused_kernels() {
  if (device_attribute(cudaDevAttrComputeCapabilityMajor) < 9) return false;
  cudaFuncAttributes attributes{};
  ATTEST_CUDA(cudaFuncGetAttributes(&attributes, compiled_as_they_are));
  return attributes.ptxVersion >= 90;
}

std::size_t ffd_fused_zeroed_bytes(const FfdCacheShape& shape) {
  ScratchLayout layout(nullptr);
  FfdFusedParams p;
  take_counts(shape, layout, p);
  return layout.used();
}

std::size_t ffd_fused_scratch(const FfdCacheShape& shape, std::byte* scratch, FfdFusedParams& p) {
  ScratchLayout layout(scratch);
  take_counts(shape, layout, p);
  const std::int64_t blocks = shape.pairs() * shape.max_blocks(), slots = shape.pairs() + kFfdMaxCtas;
  p.max_masks = shape.max_blocks() + kFfdMaxCtas;
  layout.take(p.masks, shape.pairs() * p.max_masks);
  layout.take(p.kept_tiles, 8 * shape.pairs() * p.max_masks);
  layout.take(p.tile_counts, kFfdMaxCtas);
  layout.take(p.tile_bases, kFfdMaxCtas);
  layout.take(p.pair_starts, slots);
  layout.take(p.partial, slots * shape.group * shape.value_dim);
  layout.take(p.partial_state, slots * shape.group);
  layout.take(p.maxima, blocks * kFfdTiles);
  layout.take(p.head_maxima, blocks * kFfdTiles * shape.group);
  layout.take(p.scores, blocks * kFfdBlock * shape.group);
  return layout.used();
}

void cuda_ffd_fused_decode(const FfdCacheShape& shape, const FfdCacheView& cache, std::byte* scratch,
                           const FfdDecodeOptions& options, const FfdDecodeCall& call, const FfdDeal* deal,
                           cudaStream_t stream) {
  FfdFusedParams p = params_of(shape, cache, scratch, options);
  p.call = call;
  p.max_static_items = options.balance == FfdBalance::automatic       ? max_static_items(p)
                       : options.balance == FfdBalance::static_shares ? INT_MAX
                                                                      : 0;
  (options.rule == FfdDecodeRule::topk ? p.head_maxima : p.maxima) = nullptr;
  if (options.launches == FfdLaunches::fused) return launch_fused(shape, p, deal, stream);
  p.phases = kFfdScanPhase;
  launch(shape, p, stream);
  if (p.decides_late()) {
    p.phases = kFfdSelectPhase;
    launch(shape, p, stream);
  }
  p.phases = kFfdRefinePhase;
  launch(shape, p, stream);
  p.phases = kFfdMergePhase;
  launch(shape, p, stream);
}

void cuda_ffd_fused_scan(const FfdCacheShape& shape, const FfdCacheView& cache, std::byte* scratch,
                         const FfdDecodeOptions& options, const FfdScanCall& call, cudaStream_t stream) {
  FfdFusedParams p = params_of(shape, cache, scratch, options);
  p.call.q = call.q;
  p.phases = kFfdScanPhase;
  p.scan_only = true;
  p.maxima = call.maxima;
  p.scores = call.scores;
  p.head_maxima = nullptr;
  launch(shape, p, stream);
}

}  // namespace attest
