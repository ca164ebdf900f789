// Calls the back ends of scaled_dot_product_attention by name, so that LibTorch does not choose among them.
#include "analysis/torch/torch_sdpa.h"

#include <ATen/ATen.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>

#include <string>
#include <tuple>

#include "analysis/torch/torch_module.h"

namespace attest {
namespace {

using at::Tensor;

/// `stream` for LibTorch, which takes a foreign stream's pointer as its id (c10/cuda/CUDAStream.h,
/// getStreamFromExternal). Written without that header, so that a CPU build of the module stays possible.
c10::Stream foreign_stream(const SdpaCall& call) {
  return c10::Stream::unpack3(reinterpret_cast<std::intptr_t>(call.stream), static_cast<c10::DeviceIndex>(call.device),
                              c10::DeviceType::CUDA);
}

/// [batch, heads, tokens, channels] in memory of the device.
Tensor tensor_at(const SdpaCall& call, const void* data, int64_t heads, int64_t tokens, int64_t channels) {
  const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(call.device));
  const auto type = call.element_type == ElementType::float16 ? at::kHalf : at::kBFloat16;
  return at::from_blob(
      const_cast<void*>(data), {call.batch, heads, tokens, channels}, [](void*) {},
      at::TensorOptions().dtype(type).device(device), device);
}

/// Output [batch, Hq, 1, Dv], and the log-sum-exp of a back end that always computes it.
std::pair<Tensor, Tensor> attend(const SdpaCall& call) {
  const AttentionShape& s = call.shape;
  const Tensor q = tensor_at(call, call.q, s.num_query_heads, 1, s.head_dim);
  const Tensor k = tensor_at(call, call.k, s.num_kv_heads, call.length, s.head_dim);
  const Tensor v = tensor_at(call, call.v, s.num_kv_heads, call.length, s.value_dim);
  if (call.backend == SdpaBackend::flash) {
    const auto all = at::_scaled_dot_product_flash_attention(q, k, v, 0.0, false, false, call.scale);
    return {std::get<0>(all), std::get<1>(all)};
  }
  const auto all = at::_scaled_dot_product_cudnn_attention(q, k, v, {}, false, 0.0, false, false, call.scale);
  return {std::get<0>(all), {}};
}

std::vector<float> on_host(const Tensor& tensor) {
  const Tensor values = tensor.to(at::kCPU, at::kFloat).contiguous();
  return {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()};
}

}  // namespace
}  // namespace attest

/// Entry point that sdpa_loader.cpp looks up. `result` may be null.
extern "C" bool attest_torch_sdpa(const attest::SdpaCall* call, attest::SdpaResult* result, std::string* error) {
  return attest::has_ended_well(*error, [&] {
    attest::load_torch_cuda();
    const c10::InferenceMode inference;
    const c10::StreamGuard guard(attest::foreign_stream(*call));
    const auto [out, lse] = attest::attend(*call);
    if (result == nullptr) return;
    result->out = attest::on_host(out);
    result->lse = lse.defined() ? attest::on_host(lse) : std::vector<float>();
  });
}
