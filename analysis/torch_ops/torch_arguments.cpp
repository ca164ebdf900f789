// Checks of the tensors and numbers that torch.ops.attest.attend gets.
#include "analysis/torch_ops/torch_arguments.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "analysis/torch_ops/attend.h"
#include "dumps/score_factor.h"

namespace attest {
namespace {

using at::Tensor;

ElementType element_type_of(const Tensor& q, const Tensor& k, const Tensor& v) {
  TORCH_CHECK_VALUE(k.dtype() == q.dtype() && v.dtype() == q.dtype(), "attend: q is ", q.dtype(), ", k ", k.dtype(),
                    ", v ", v.dtype(), ", expected one type");
  if (q.scalar_type() == at::kHalf) return ElementType::float16;
  if (q.scalar_type() == at::kBFloat16) return ElementType::bfloat16;
  TORCH_CHECK_VALUE(q.scalar_type() == at::kFloat, "attend: q is ", q.dtype(),
                    ", expected float16, bfloat16 or float32");
  return ElementType::float32;
}

AttentionShape shape_of(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto sizes = [](const Tensor& t) { return t.sizes(); };
  TORCH_CHECK_VALUE(k.size(0) == q.size(0) && v.size(0) == q.size(0) && k.size(1) == v.size(1) &&
                        k.size(2) == v.size(2) && k.size(3) == q.size(3) && k.size(1) > 0 && q.size(1) > 0 &&
                        q.size(1) % k.size(1) == 0 && q.size(3) > 0 && v.size(3) > 0,
                    "attend: q is ", sizes(q), ", k ", sizes(k), ", v ", sizes(v),
                    ", expected [batch, Hq, N, D], [batch, Hkv, T, D] and [batch, Hkv, T, Dv], where Hkv divides Hq");
  TORCH_CHECK_VALUE(q.size(2) <= k.size(2), "attend: ", q.size(2), " queries and ", k.size(2),
                    " keys, expected at least as many keys: the queries are the last tokens");
  for (const std::int64_t size : {q.size(1), q.size(3), v.size(3)})
    TORCH_CHECK_VALUE(size <= std::numeric_limits<int>::max() / 2, "attend: a dimension of ", size, " is too large");
  return {static_cast<int>(q.size(1)), static_cast<int>(k.size(1)), static_cast<int>(q.size(3)),
          static_cast<int>(v.size(3))};
}

std::vector<float> sinks_of(const std::optional<Tensor>& sinks, std::int64_t num_query_heads) {
  if (!sinks || !sinks->defined()) return {};
  TORCH_CHECK_VALUE(sinks->dim() == 1 && sinks->size(0) == num_query_heads && sinks->is_floating_point(),
                    "attend: sinks are ", sinks->dtype(), " ", sinks->sizes(), ", expected floating point [",
                    num_query_heads, "]: one logit per query head");
  const Tensor values = sinks->to(at::kCPU, at::kFloat).contiguous();
  const float* first = values.const_data_ptr<float>();
  std::vector<float> out(first, first + values.numel());
  for (std::size_t h = 0; h < out.size(); ++h)
    TORCH_CHECK_VALUE(std::isfinite(out[h]), "attend: the sink of query head ", h, " is ", out[h],
                      ", expected a finite number");
  return out;
}

void check_numbers(std::int64_t layer, double scale, double softcap, std::int64_t window) {
  TORCH_CHECK_VALUE(layer >= 0 && layer <= std::numeric_limits<int>::max(), "attend: layer is ", layer,
                    ", expected the layer's number in the model, from 0");
  const std::string fault = fault_of_score_factor(scale),
                    fault_of_softcap = softcap == 0 ? "" : fault_of_score_factor(softcap);
  TORCH_CHECK_VALUE(fault.empty(), "attend: scale ", fault);
  TORCH_CHECK_VALUE(fault_of_softcap.empty(), "attend: softcap ", fault_of_softcap, ", or 0 for none");
  TORCH_CHECK_VALUE(window >= 0, "attend: window is ", window, ", expected a number of tokens, or 0 for none");
}

}  // namespace

Tensor readable(const Tensor& tensor) {
  constexpr std::uintptr_t kAlignment = 16;
  const Tensor contiguous = tensor.contiguous();
  return reinterpret_cast<std::uintptr_t>(contiguous.const_data_ptr()) % kAlignment == 0 ? contiguous
                                                                                         : contiguous.clone();
}

AttendResults empty_results(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const auto& [name, tensor] : {std::pair("q", q), std::pair("k", k), std::pair("v", v)})
    TORCH_CHECK_VALUE(tensor.dim() == 4, "attend: ", name, " has ", tensor.dim(),
                      " dimensions, expected 4: [batch, heads, tokens, channels]");
  const c10::SymInt batch = q.sym_size(0), queries = q.sym_size(2);
  return {at::empty_symint({batch, q.sym_size(1), queries, v.sym_size(3)}, q.options()),
          at::empty_symint({batch, q.sym_size(1), queries}, q.options().dtype(at::kFloat)),
          at::empty_symint({batch, k.sym_size(1), queries}, q.options().dtype(at::kLong))};
}

AttendArguments attend_arguments(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view selector,
                                 double setting, std::int64_t layer, double scale, double softcap, std::int64_t window,
                                 const std::optional<Tensor>& sinks, bool values_in_keys) {
  check_numbers(layer, scale, softcap, window);
  AttendArguments out;
  out.layer.layer = static_cast<int>(layer);
  out.layer.element_type = element_type_of(q, k, v);
  out.layer.shape = shape_of(q, k, v);
  out.layer.shape.values_in_keys = values_in_keys ? 1 : 0;
  TORCH_CHECK_VALUE(!values_in_keys || v.size(3) <= k.size(3), "attend: values_in_keys with k ", k.sizes(), " and v ",
                    v.sizes(), ", expected values that are the first channels of the keys");
  TORCH_CHECK_VALUE(k.device() == q.device() && v.device() == q.device(), "attend: q is on ", q.device(), ", k on ",
                    k.device(), ", v on ", v.device(), ", expected one device");
  out.layer.softmax_scale = scale;
  out.layer.logit_softcap = softcap;
  out.layer.sliding_window = window;
  out.layer.num_tokens = k.size(2);
  for (std::int64_t p = k.size(2) - q.size(2); p < k.size(2); ++p) out.layer.query_positions.push_back(p);
  out.layer.sinks = sinks_of(sinks, q.size(1));
  out.selector = selector_of(selector);
  out.setting = setting_of(*out.selector, setting);
  return out;
}

}  // namespace attest
