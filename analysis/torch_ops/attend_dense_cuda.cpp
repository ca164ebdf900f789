// The call as cuda_dense_attention() takes it. A window is an offset into the keys and values.
#include "analysis/torch_ops/attend_dense_cuda.h"

#include <span>

#include "analysis/layer/overflow.h"
#include "kernels/decode/baselines/dense_attention_cuda.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

bool keeps_all(const Selector& selector, const AttentionLayer& layer) {
  return selector.name() == "exact" || selector.is_dense_layer(layer.layer, layer.shape.num_kv_heads);
}

ExactCache cache_of(const CudaAttendCall& call) {
  const AttentionLayer& layer = call.layer;
  const std::int64_t position = layer.query_positions.front(), first = layer.first_visible_key(position);
  const std::int64_t skipped = first * layer.shape.head_dim * static_cast<std::int64_t>(size_of(layer.element_type));
  ExactCache cache;
  cache.batch = static_cast<int>(call.batch);
  cache.num_kv_heads = layer.shape.num_kv_heads;
  cache.group = layer.shape.group();
  cache.head_dim = layer.shape.head_dim;
  cache.max_tokens = position + 1 - first;
  cache.stride = layer.num_tokens;
  cache.element_type = layer.element_type;
  cache.scale = static_cast<float>(layer.softmax_scale);
  cache.keys = static_cast<const std::byte*>(call.k) + skipped;
  cache.values = static_cast<const std::byte*>(call.v) + skipped;
  return cache;
}

}  // namespace

bool is_dense_step(const CudaAttendCall& call) {
  const AttentionLayer& layer = call.layer;
  return layer.num_queries() == 1 && layer.logit_softcap == 0 && layer.shape.head_dim == layer.shape.value_dim &&
         call.batch <= kExactMaxPairs && fault_of_exact_cache(cache_of(call)).empty() &&
         keeps_all(*call.selector, layer);
}

bool cuda_attend_dense(const CudaAttendCall& call, DeviceArena& arena, Uploads& uploads, int* flag) {
  const auto stream = static_cast<cudaStream_t>(call.stream);
  const DeviceArena::Scope scope(arena);
  uploads.reset();
  const ExactCache cache = cache_of(call);
  const std::vector<float>& sinks = call.layer.sinks;
  *flag = 0;
  cuda_dense_attention(cache,
                       {.q = call.q,
                        .sinks = sinks.empty() ? nullptr : uploads.put(std::span(sinks), arena, stream),
                        .largest_score = kLargestScore,
                        .out = call.out,
                        .lse = call.lse,
                        .tokens = call.kept,
                        .refused = flag,
                        .scratch = arena.take<std::byte>(dense_attention_scratch(cache))},
                       stream);
  ATTEST_CUDA(cudaStreamSynchronize(stream));
  return *static_cast<volatile int*>(flag) == 0;
}

}  // namespace attest
