// K^ and V^ of the KV heads and tokens that a chunk sees, as float32: a format's codes are decided, and decoded, row by
// row, so that it does not matter how a layer is cut into chunks.
#include "kernels/selectors/kv_store_cuda.h"

#include <algorithm>

#include "kernels/attention/scores_cuda.h"
#include "kernels/device/cuda_check.h"
#include "kernels/kv_formats/kv_rows_cuda.h"
#include "kernels/kv_formats/kv_scale_cuda.h"

namespace attest {
namespace {

/// The part of the keys on the device that a chunk sees.
struct Seen {
  int first_head = 0, num_heads = 0;
  std::int64_t first_token = 0, num_tokens = 0;
  const KeyOrigin* origins = nullptr;  ///< those of the chunk, counted in this part

  explicit Seen(const CudaChunk& chunk) {
    if (chunk.origins.empty()) return;
    first_head = std::ranges::min(chunk.origins, {}, &KeyOrigin::kv_head).kv_head;
    first_token = std::ranges::min(chunk.origins, {}, &KeyOrigin::first_key).first_key;
    std::vector<KeyOrigin> moved(chunk.origins.begin(), chunk.origins.end());
    for (KeyOrigin& origin : moved) {
      origin.kv_head -= first_head;
      origin.first_key -= static_cast<int>(first_token);
      num_heads = std::max(num_heads, origin.kv_head + 1);
      num_tokens = std::max<std::int64_t>(num_tokens, std::int64_t{origin.first_key} + origin.length);
    }
    origins = chunk.upload(moved);
  }

  std::size_t elements(int channels) const {
    return static_cast<std::size_t>(num_heads) * static_cast<std::size_t>(num_tokens) *
           static_cast<std::size_t>(channels);
  }
};

/// Fills `out`, and `low` if it is not null, [seen.elements()].
void decode(const KvStore& store, const CudaChunk& chunk, const Seen& seen, bool keys, float* out, float* low) {
  const KvStore::Side& side = store.side(keys);
  const float* scales = cuda_kv_scales(side.scale, chunk.layer, chunk.first_kv_head + seen.first_head, seen.num_heads,
                                       keys ? chunk.key_amax : chunk.value_amax, chunk.layer_kv_heads, *chunk.arena,
                                       *chunk.uploads, chunk.stream);
  side.format->cuda(store.rows_of(chunk.kv.shape(), keys, chunk.kv.type),
                    {.tokens = keys ? chunk.kv.all_keys() : chunk.kv.all_values(),
                     .first_head = seen.first_head,
                     .num_heads = seen.num_heads,
                     .first_token = seen.first_token,
                     .num_tokens = seen.num_tokens,
                     .scales = scales,
                     .out = out,
                     .low = low,
                     .stream = chunk.stream});
}

}  // namespace

StoredOnDevice cuda_store(const KvStore& store, const CudaChunk& chunk) {
  StoredOnDevice stored;
  const DeviceKeyValues& kv = chunk.kv;
  const Seen seen(chunk);
  float* values = nullptr;
  if (store.stores_values(kv.shape())) {
    values = chunk.take<float>(seen.elements(kv.value_dim));
    stored.values = {values, seen.num_tokens, seen.origins};
  }
  if (store.stores_keys()) {
    stored.scores = chunk.take_rows<float>();
    stored.low = chunk.take_low();
    const DeviceArena::Scope scope(*chunk.arena);
    auto* const out = chunk.take<float>(seen.elements(kv.head_dim));
    const MadeTokens keys{out, seen.num_tokens, seen.origins};
    float* low = stored.low == nullptr ? nullptr : chunk.take<float>(seen.elements(kv.head_dim));
    decode(store, chunk, seen, true, out, low);
    cuda_scores_of_rounded(keys.seen_by(chunk.rows), keys.as_keys(kv), low, chunk.queries,
                           chunk.by_tokens(stored.scores), chunk.by_tokens(stored.low), chunk.stream);
    if (kv.values_in_keys) {
      const std::size_t row = static_cast<std::size_t>(kv.value_dim) * sizeof(float);
      ATTEST_CUDA(cudaMemcpy2DAsync(values, row, out, static_cast<std::size_t>(kv.head_dim) * sizeof(float), row,
                                    seen.elements(1), cudaMemcpyDeviceToDevice, chunk.stream));
    }
  }
  if (!kv.values_in_keys && values != nullptr) decode(store, chunk, seen, false, values, nullptr);
  return stored;
}

}  // namespace attest
