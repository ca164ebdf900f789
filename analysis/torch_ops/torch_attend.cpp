// The operator torch.ops.attest.attend: schema, the CPU and the Meta kernel.
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "analysis/torch_ops/attend.h"
#include "analysis/torch_ops/torch_arguments.h"

namespace attest {
namespace {

using at::Tensor;

/// `tensor` itself, unless its channels are not contiguous.
Tensor with_contiguous_channels(const Tensor& tensor) {
  return tensor.size(3) == 1 || tensor.stride(3) == 1 ? tensor : tensor.contiguous();
}

HeadsView view_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

AttendResults attend_cpu(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view selector, double setting,
                         std::int64_t layer, double scale, double softcap, std::int64_t window,
                         const std::optional<Tensor>& sinks, bool values_in_keys) {
  return with_python_errors([&] {
    AttendResults results = empty_results(q, k, v);
    AttendArguments arguments =
        attend_arguments(q, k, v, selector, setting, layer, scale, softcap, window, sinks, values_in_keys);
    auto& [out, lse, kept] = results;
    if (lse.numel() == 0) return results;
    const Tensor queries = with_contiguous_channels(q), keys = with_contiguous_channels(k),
                 values = with_contiguous_channels(v);
    attend({.selector = arguments.selector.get(),
            .setting = arguments.setting,
            .layer = std::move(arguments.layer),
            .batch = q.size(0),
            .q = view_of(queries),
            .k = view_of(keys),
            .v = view_of(values),
            .threads = at::get_num_threads(),
            .out = static_cast<std::byte*>(out.mutable_data_ptr()),
            .lse = lse.mutable_data_ptr<float>(),
            .kept = kept.mutable_data_ptr<std::int64_t>()});
    return results;
  });
}

AttendResults attend_meta(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view, double, std::int64_t,
                          double, double, std::int64_t, const std::optional<Tensor>&, bool) {
  return empty_results(q, k, v);
}

std::string setting_kind(std::string_view selector) {
  return with_python_errors([&] { return std::string(name_of(selector_of(selector)->setting_kind())); });
}

}  // namespace
}  // namespace attest

TORCH_LIBRARY(attest, library) {
  library.def(
      "attend(Tensor q, Tensor k, Tensor v, str selector, float setting, int layer, float scale, float softcap=0, int "
      "window=0, Tensor? sinks=None, bool values_in_keys=False) -> (Tensor out, Tensor lse, Tensor kept)",
      {at::Tag::pt2_compliant_tag});
  library.def("setting_kind(str selector) -> str", attest::setting_kind);
}

TORCH_LIBRARY_IMPL(attest, CPU, library) { library.impl("attend", attest::attend_cpu); }

TORCH_LIBRARY_IMPL(attest, Meta, library) { library.impl("attend", attest::attend_meta); }

// Without this, a backward pass through the operator would leave gradients out with a mere warning.
TORCH_LIBRARY_IMPL(attest, Autograd, library) {
  library.impl("attend", torch::autograd::autogradNotImplementedFallback());
}
