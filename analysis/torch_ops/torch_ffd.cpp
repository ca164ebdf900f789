// The class FfdCache, the operator ffd_decode: schema, checks, and the kernel of the meta device.
#include "analysis/torch_ops/torch_ffd.h"

#include <ATen/ops/empty.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <limits>
#include <string>
#include <string_view>

#include "analysis/torch_ops/torch_arguments.h"
#include "dumps/score_factor.h"

namespace attest {
namespace {

using at::Tensor;

FfdDecodePseudoMax reference_of(const std::string& text) {
  if (text == "thumbnail") return FfdDecodePseudoMax::thumbnail;
  if (text == "exact") return FfdDecodePseudoMax::exact;
  TORCH_CHECK_VALUE(text == "global", "FfdCache: pseudo_max is '", text, "', expected thumbnail, exact or global");
  return FfdDecodePseudoMax::global;
}

FfdResults ffd_decode(const c10::intrusive_ptr<FfdCacheHolder>& cache, const Tensor& q, const Tensor& delta,
                      double scale, const std::optional<Tensor>& sinks, std::int64_t sub_block,
                      std::string_view pseudo_max) {
  return cache->decode(q, delta, scale, sinks, sub_block, std::string(pseudo_max));
}

}  // namespace

FfdMemoryMaker& ffd_memory_maker() {
  static FfdMemoryMaker maker = nullptr;
  return maker;
}

FfdCacheHolder::FfdCacheHolder(const Tensor& k, const Tensor& v, std::int64_t num_query_heads, std::int64_t max_tokens,
                               std::int64_t bits)
    : device_(k.device()), type_(k.scalar_type()), tokens_(k.dim() == 4 ? k.size(2) : 0) {
  TORCH_CHECK_VALUE((k.is_cuda() || k.is_meta()) && v.device() == device_ &&
                        (type_ == at::kHalf || type_ == at::kBFloat16) && v.scalar_type() == type_,
                    "FfdCache: k is ", k.scalar_type(), " on ", k.device(), ", v ", v.scalar_type(), " on ", v.device(),
                    ", expected float16 or bfloat16, both on one GPU");
  TORCH_CHECK_VALUE(k.dim() == 4 && v.dim() == 4 && k.sizes().slice(0, 3) == v.sizes().slice(0, 3) && k.size(1) > 0 &&
                        num_query_heads > 0 && num_query_heads % k.size(1) == 0,
                    "FfdCache: k is ", k.sizes(), ", v ", v.sizes(), ", with ", num_query_heads,
                    " query heads, expected [batch, Hkv, T, D] and [batch, Hkv, T, Dv], where Hkv divides the heads");
  for (const std::int64_t size : {k.size(0), num_query_heads, k.size(3), v.size(3), bits, tokens_})
    TORCH_CHECK_VALUE(size <= std::numeric_limits<int>::max(), "FfdCache: a size of ", size, " is too large");
  TORCH_CHECK_VALUE(max_tokens >= tokens_, "FfdCache: max_tokens is ", max_tokens, ", expected at least the ", tokens_,
                    " tokens of k");
  shape_ = {.batch = static_cast<int>(k.size(0)),
            .num_kv_heads = static_cast<int>(k.size(1)),
            .group = static_cast<int>(num_query_heads / k.size(1)),
            .head_dim = static_cast<int>(k.size(3)),
            .value_dim = static_cast<int>(v.size(3)),
            .max_tokens = max_tokens,
            .element_type = type_ == at::kHalf ? ElementType::float16 : ElementType::bfloat16,
            .bits = static_cast<int>(bits)};
  with_python_errors([&] { check_shape(shape_); });
  if (k.is_meta()) return;
  TORCH_CHECK_VALUE(ffd_memory_maker() != nullptr, "FfdCache: k is on ", k.device(),
                    ", and the operator library was built without CUDA");
  memory_ = ffd_memory_maker()(shape_, device_);
  memory_->build(k.contiguous(), v.contiguous());
}

void FfdCacheHolder::append(const Tensor& k, const Tensor& v) {
  expect(k, {shape_.batch, shape_.num_kv_heads, 1, shape_.head_dim}, "k");
  expect(v, {shape_.batch, shape_.num_kv_heads, 1, shape_.value_dim}, "v");
  TORCH_CHECK_VALUE(tokens_ < shape_.max_tokens, "FfdCache: it is full, with max_tokens = ", shape_.max_tokens,
                    " tokens");
  if (memory_ && k.is_meta()) return;
  if (memory_) memory_->append(k.contiguous(), v.contiguous());
  ++tokens_;
}

void FfdCacheHolder::deal(const Tensor& kept_share) {
  TORCH_CHECK_VALUE(
      kept_share.sizes() == at::IntArrayRef({shape_.batch, shape_.num_kv_heads}) && kept_share.is_floating_point(),
      "FfdCache: kept_share is ", kept_share.scalar_type(), " ", kept_share.sizes(), ", expected floating point [",
      shape_.batch, ", ", shape_.num_kv_heads, "]");
  if (!memory_ || kept_share.is_meta()) return;
  const Tensor shares = kept_share.to(at::TensorOptions(at::kCPU).dtype(at::kFloat)).contiguous();
  memory_->deal({shares.const_data_ptr<float>(), static_cast<std::size_t>(shares.numel())}, tokens_);
}

FfdResults FfdCacheHolder::decode(const Tensor& q, const Tensor& delta, double scale,
                                  const std::optional<Tensor>& sinks, std::int64_t sub_block,
                                  const std::string& pseudo_max) const {
  const std::int64_t heads = std::int64_t{shape_.num_kv_heads} * shape_.group;
  expect(q, {shape_.batch, heads, 1, shape_.head_dim}, "q");
  expect_floats(delta, shape_.num_kv_heads, "delta");
  if (sinks) expect_floats(*sinks, heads, "sinks");
  const std::string fault = fault_of_score_factor(scale);
  TORCH_CHECK_VALUE(fault.empty(), "FfdCache: scale ", fault);
  TORCH_CHECK_VALUE(sub_block > 0 && sub_block <= kFfdBlock, "FfdCache: sub_block is ", sub_block,
                    ", expected 16, 32, 64 or 128");
  FfdDecodeOptions options;
  options.scale = static_cast<float>(scale);
  options.sub_block = static_cast<int>(sub_block);
  options.pseudo_max = reference_of(pseudo_max);
  with_python_errors([&] { check_options(options); });
  const Tensor out = at::empty({shape_.batch, heads, 1, shape_.value_dim}, q.options());
  const Tensor lse = at::empty({shape_.batch, heads, 1}, q.options().dtype(at::kFloat));
  const Tensor kept = at::empty({shape_.batch, shape_.num_kv_heads, 1}, q.options().dtype(at::kInt));
  if (memory_ && !q.is_meta()) memory_->decode(options, {readable(q), delta, sinks.value_or(Tensor()), out, lse, kept});
  return {out, lse, kept};
}

void FfdCacheHolder::expect(const Tensor& tensor, at::IntArrayRef sizes, const char* name) const {
  TORCH_CHECK_VALUE(tensor.sizes() == sizes && tensor.scalar_type() == type_ && is_here(tensor), "FfdCache: ", name,
                    " is ", tensor.scalar_type(), " ", tensor.sizes(), " on ", tensor.device(), ", expected ", type_,
                    " ", sizes, " on ", device_);
}

void FfdCacheHolder::expect_floats(const Tensor& tensor, std::int64_t count, const char* name) const {
  TORCH_CHECK_VALUE(tensor.dim() == 1 && tensor.size(0) == count && tensor.scalar_type() == at::kFloat &&
                        tensor.is_contiguous() && is_here(tensor),
                    "FfdCache: ", name, " is ", tensor.scalar_type(), " ", tensor.sizes(), " on ", tensor.device(),
                    ", expected contiguous float32 [", count, "] on ", device_);
}

}  // namespace attest

TORCH_LIBRARY_FRAGMENT(attest, library) {
  using attest::FfdCacheHolder;
  library.class_<FfdCacheHolder>("FfdCache")
      .def(torch::init<const at::Tensor&, const at::Tensor&, std::int64_t, std::int64_t, std::int64_t>(), "",
           {torch::arg("k"), torch::arg("v"), torch::arg("num_query_heads"), torch::arg("max_tokens"),
            torch::arg("bits") = 2})
      .def("append", &FfdCacheHolder::append)
      .def("deal", &FfdCacheHolder::deal)
      .def("tokens", &FfdCacheHolder::tokens)
      .def("bytes", &FfdCacheHolder::bytes);
  library.def(
      "ffd_decode(__torch__.torch.classes.attest.FfdCache cache, Tensor q, Tensor delta, float scale, Tensor? "
      "sinks=None, int sub_block=128, str pseudo_max='thumbnail') -> (Tensor out, Tensor lse, Tensor kept)");
}

TORCH_LIBRARY_IMPL(attest, CUDA, library) { library.impl("ffd_decode", attest::ffd_decode); }
TORCH_LIBRARY_IMPL(attest, Meta, library) { library.impl("ffd_decode", attest::ffd_decode); }
TORCH_LIBRARY_IMPL(attest, Autograd, library) {
  library.impl("ffd_decode", torch::autograd::autogradNotImplementedFallback());
}
