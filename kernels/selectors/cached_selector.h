// A selector over a quantised KV cache: K^ and V^ (kv_store.h) are read wherever the selector reads keys and values in
// 16 bits, as an engine does that runs a sparse method on an fp8 cache. Options of every selector that takes_cache:
//   cache              FORMAT of keys and values, or K_FORMAT+V_FORMAT; native is 16 bits
//   cache_scale        of fp8 and nvfp4, like k_scale of kv_cache
//   cache_scales_file  like scales_file of kv_cache
// What a method builds beside the cache (thumbnails, residuals, pages, labels, codes, the copy of the keys by channels,
// the mean value) is made of the keys and values as they arrive, and costs what it did. Scores that a rule takes from
// the cache (an exact pseudo-maximum, tiles of skip_softmax, oracles) are those of K^. Bytes: those of the format
// wherever 2D and 2Dv stood. Layers that are dense for the selector stay exact, in 16 bits.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/selectors/kv_store.h"
#include "kernels/selectors/selector.h"

namespace attest {

struct CacheOptions {
  KvStore store;
  std::string scales_file;  ///< "": none
};

/// Nothing without the option `cache`. Throws UsageError for bad values, and for the others without it.
std::optional<CacheOptions> read_cache_options(OptionReader& reader);

/// The selector over the cache. Its options are those that it was made with, so they have those of the cache.
std::unique_ptr<Selector> with_cache(std::unique_ptr<Selector> selector, CacheOptions cache);

/// Defined in cached_selector_cuda.cpp. `inner` may be null: then so is the result.
std::shared_ptr<const CudaSelector> make_cuda_cached(const std::shared_ptr<const CudaSelector>& inner,
                                                     const KvStore& store);

}  // namespace attest
