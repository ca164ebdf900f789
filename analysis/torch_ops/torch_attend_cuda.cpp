// The CUDA kernel of torch.ops.attest.attend, on the current stream.
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include "analysis/torch_ops/attend_cuda.h"
#include "analysis/torch_ops/torch_arguments.h"

namespace attest {
namespace {

using at::Tensor;

/// [batch, N, heads, ...] as [batch, heads, N, ...], contiguous.
Tensor by_heads(const Tensor& by_queries) {
  if (by_queries.size(1) != 1) return by_queries.transpose(1, 2).contiguous();
  std::vector<std::int64_t> sizes = by_queries.sizes().vec();
  std::swap(sizes[1], sizes[2]);
  return by_queries.view(sizes);  // strides as of a new tensor, which transpose() would not give
}

AttendResults attend_cuda(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view selector, double setting,
                          std::int64_t layer, double scale, double softcap, std::int64_t window,
                          const std::optional<Tensor>& sinks, bool values_in_keys) {
  return with_python_errors([&] {
    AttendResults none = empty_results(q, k, v);
    AttendArguments arguments =
        attend_arguments(q, k, v, selector, setting, layer, scale, softcap, window, sinks, values_in_keys);
    if (std::get<1>(none).numel() == 0) return none;
    const std::int64_t batch = q.size(0), queries = q.size(2);
    const Tensor out = at::empty({batch, queries, q.size(1), v.size(3)}, q.options());
    const Tensor lse = at::empty({batch, queries, q.size(1)}, q.options().dtype(at::kFloat));
    const Tensor kept = at::empty({batch, queries, k.size(1)}, q.options().dtype(at::kLong));
    const Tensor by_query = readable(q.transpose(1, 2)), keys = readable(k), values = readable(v);
    const c10::impl::VirtualGuardImpl device(c10::DeviceType::CUDA);
    cuda_attend({.selector = arguments.selector.get(),
                 .setting = arguments.setting,
                 .layer = std::move(arguments.layer),
                 .batch = batch,
                 .q = by_query.const_data_ptr(),
                 .k = keys.const_data_ptr(),
                 .v = values.const_data_ptr(),
                 .device = q.get_device(),
                 .stream = device.getStreamNativeHandle(device.getStream(q.device())),
                 .out = out.mutable_data_ptr(),
                 .lse = lse.mutable_data_ptr<float>(),
                 .kept = kept.mutable_data_ptr<std::int64_t>()});
    return AttendResults{by_heads(out), by_heads(lse), by_heads(kept)};
  });
}

}  // namespace
}  // namespace attest

TORCH_LIBRARY_IMPL(attest, CUDA, library) { library.impl("attend", attest::attend_cuda); }
