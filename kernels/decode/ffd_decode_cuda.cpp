// FFD decode: the choice of the kernels by the cache's layout.
#include "kernels/decode/ffd_decode_cuda.h"

#include <fmt/core.h>

#include <cstdint>

#include "dumps/base/error.h"
#include "kernels/decode/fused/ffd_fused_cuda.h"
#include "kernels/decode/reference/ffd_reference_cuda.h"

namespace attest {
namespace {

bool is_fused(const FfdCache& cache) { return cache.shape().layout == FfdCacheLayout::fragments; }

void check_alignment(const void* pointer, const char* name) {
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(pointer) % kFfdAlignment;
  if (beyond != 0)
    throw InputError(fmt::format("FFD decode: expected {} at a multiple of {} bytes, found it {} bytes behind one",
                                 name, kFfdAlignment, beyond));
}

}  // namespace

void cuda_ffd_decode(const FfdCache& cache, const FfdDecodeOptions& options, const FfdDecodeCall& call,
                     cudaStream_t stream, const FfdDeal* deal) {
  check_options(options);
  check_alignment(call.q, "q");
  check_alignment(call.out, "out");
  if (is_fused(cache))
    cuda_ffd_fused_decode(cache.shape(), cache.view(), cache.scratch(), options, call, deal, stream);
  else
    cuda_ffd_reference_decode(cache.shape(), cache.view(), cache.scratch(), options, call, stream);
}

FfdDeal deal_ffd_decode(const FfdCache& cache, std::span<const float> kept_share, std::int64_t tokens) {
  const FfdCacheShape& shape = cache.shape();
  if (std::ssize(kept_share) != shape.pairs())
    throw InputError(fmt::format("FFD decode: expected the kept shares of {} sequences times KV heads, found {}",
                                 shape.pairs(), kept_share.size()));
  for (const float share : kept_share)
    if (!(share >= 0 && share <= 1))
      throw InputError(fmt::format("FFD decode: expected kept shares from 0 to 1, found {}", share));
  return is_fused(cache) ? deal_by_shares(kept_share, static_cast<int>(tokens / kFfdBlock), ffd_fused_ctas())
                         : FfdDeal();
}

void cuda_ffd_scan(const FfdCache& cache, const FfdDecodeOptions& options, const FfdScanCall& call,
                   cudaStream_t stream) {
  check_options(options);
  check_alignment(call.q, "q");
  if (is_fused(cache))
    cuda_ffd_fused_scan(cache.shape(), cache.view(), cache.scratch(), options, call, stream);
  else
    cuda_ffd_reference_scan(cache.shape(), cache.view(), cache.scratch(), options, call, stream);
}

}  // namespace attest
