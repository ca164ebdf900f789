// torch.classes.attest.FfdCache, FFD's quantised KV cache, and torch.ops.attest.ffd_decode, its decode kernel, on the
// current stream of a GPU.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/torch_ops/torch_arguments.h"
#include "kernels/decode/ffd_decode_cuda.h"

namespace attest {
namespace {

using at::Tensor;

/// Makes a device the current one while it lives.
class OnDevice {
 public:
  explicit OnDevice(const c10::Device& device)
      : guard_(c10::DeviceType::CUDA), before_(guard_.exchangeDevice(device)) {}
  ~OnDevice() { guard_.uncheckedSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  cudaStream_t stream(const c10::Device& device) const {
    return static_cast<cudaStream_t>(guard_.getStreamNativeHandle(guard_.getStream(device)));
  }

 private:
  c10::impl::VirtualGuardImpl guard_;
  c10::Device before_;
};

FfdDecodePseudoMax reference_of(const std::string& text) {
  if (text == "thumbnail") return FfdDecodePseudoMax::thumbnail;
  if (text == "exact") return FfdDecodePseudoMax::exact;
  TORCH_CHECK_VALUE(text == "global", "FfdCache: pseudo_max is '", text, "', expected thumbnail, exact or global");
  return FfdDecodePseudoMax::global;
}

class FfdCacheHolder : public torch::CustomClassHolder {
 public:
  /// k [batch, Hkv, T, D] and v [batch, Hkv, T, Dv] of the prompts' tokens.
  FfdCacheHolder(const Tensor& k, const Tensor& v, std::int64_t num_query_heads, std::int64_t max_tokens,
                 std::int64_t bits)
      : device_(k.device()), type_(k.scalar_type()), tokens_(k.dim() == 4 ? k.size(2) : 0) {
    TORCH_CHECK_VALUE(k.is_cuda() && v.device() == device_ && (type_ == at::kHalf || type_ == at::kBFloat16) &&
                          v.scalar_type() == type_,
                      "FfdCache: k is ", k.scalar_type(), " on ", k.device(), ", v ", v.scalar_type(), " on ",
                      v.device(), ", expected float16 or bfloat16, both on one GPU");
    TORCH_CHECK_VALUE(k.dim() == 4 && v.dim() == 4 && k.sizes().slice(0, 3) == v.sizes().slice(0, 3) && k.size(1) > 0 &&
                          num_query_heads > 0 && num_query_heads % k.size(1) == 0,
                      "FfdCache: k is ", k.sizes(), ", v ", v.sizes(), ", with ", num_query_heads,
                      " query heads, expected [batch, Hkv, T, D] and [batch, Hkv, T, Dv], where Hkv divides the heads");
    for (const std::int64_t size : {k.size(0), num_query_heads, k.size(3), v.size(3), bits, tokens_})
      TORCH_CHECK_VALUE(size <= std::numeric_limits<int>::max(), "FfdCache: a size of ", size, " is too large");
    TORCH_CHECK_VALUE(max_tokens >= tokens_, "FfdCache: max_tokens is ", max_tokens, ", expected at least the ",
                      tokens_, " tokens of k");
    with_device([&](cudaStream_t stream) {
      cache_.emplace(FfdCacheShape{.batch = static_cast<int>(k.size(0)),
                                   .num_kv_heads = static_cast<int>(k.size(1)),
                                   .group = static_cast<int>(num_query_heads / k.size(1)),
                                   .head_dim = static_cast<int>(k.size(3)),
                                   .value_dim = static_cast<int>(v.size(3)),
                                   .max_tokens = max_tokens,
                                   .element_type = type_ == at::kHalf ? ElementType::float16 : ElementType::bfloat16,
                                   .bits = static_cast<int>(bits)});
      const std::vector<int> lengths(static_cast<std::size_t>(k.size(0)), static_cast<int>(tokens_));
      const Tensor keys = k.contiguous(), values = v.contiguous();
      cache_->build(keys.const_data_ptr(), values.const_data_ptr(), tokens_, lengths.data(), stream);
    });
  }

  /// k [batch, Hkv, 1, D] and v [batch, Hkv, 1, Dv] of the next token of every sequence.
  void append(const Tensor& k, const Tensor& v) {
    const FfdCacheShape& s = cache_->shape();
    expect(k, {s.batch, s.num_kv_heads, 1, s.head_dim}, "k");
    expect(v, {s.batch, s.num_kv_heads, 1, s.value_dim}, "v");
    TORCH_CHECK_VALUE(tokens_ < s.max_tokens, "FfdCache: it is full, with max_tokens = ", s.max_tokens, " tokens");
    with_device([&](cudaStream_t stream) {
      const Tensor keys = k.contiguous(), values = v.contiguous();
      cache_->append(keys.const_data_ptr(), values.const_data_ptr(), stream);
    });
    ++tokens_;
  }

  /// q [batch, Hq, 1, D] and delta [Hkv] -> out [batch, Hq, 1, Dv], lse [batch, Hq, 1], and how many sub-blocks of the
  /// full blocks each KV head keeps [batch, Hkv, 1]. The tokens after the full blocks are always kept.
  std::tuple<Tensor, Tensor, Tensor> decode(const Tensor& q, const Tensor& delta, double scale,
                                            const std::optional<Tensor>& sinks, std::int64_t sub_block,
                                            const std::string& pseudo_max) const {
    const FfdCacheShape& s = cache_->shape();
    const std::int64_t heads = std::int64_t{s.num_kv_heads} * s.group;
    expect(q, {s.batch, heads, 1, s.head_dim}, "q");
    expect_floats(delta, s.num_kv_heads, "delta");
    if (sinks) expect_floats(*sinks, heads, "sinks");
    TORCH_CHECK_VALUE(std::isfinite(scale) && scale > 0, "FfdCache: scale is ", scale, ", expected a number above 0");
    TORCH_CHECK_VALUE(sub_block > 0 && sub_block <= kFfdBlock, "FfdCache: sub_block is ", sub_block,
                      ", expected 16, 32, 64 or 128");
    FfdDecodeOptions options;
    options.scale = static_cast<float>(scale);
    options.sub_block = static_cast<int>(sub_block);
    options.pseudo_max = reference_of(pseudo_max);
    const Tensor out = at::empty({s.batch, heads, 1, s.value_dim}, q.options());
    const Tensor lse = at::empty({s.batch, heads, 1}, q.options().dtype(at::kFloat));
    const Tensor kept = at::empty({s.batch, s.num_kv_heads, 1}, q.options().dtype(at::kInt));
    const Tensor queries = q.contiguous();
    with_device([&](cudaStream_t stream) {
      cuda_ffd_decode(*cache_, options,
                      {.q = queries.const_data_ptr(),
                       .delta = delta.const_data_ptr<float>(),
                       .sinks = sinks ? sinks->const_data_ptr<float>() : nullptr,
                       .out = out.mutable_data_ptr(),
                       .lse = lse.mutable_data_ptr<float>(),
                       .kept = kept.mutable_data_ptr<int>()},
                      stream);
    });
    return {out, lse, kept};
  }

  std::int64_t tokens() const { return tokens_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(cache_->bytes()); }

 private:
  template <class Action>
  void with_device(Action&& action) const {
    const OnDevice here(device_);
    with_python_errors([&] { action(here.stream(device_)); });
  }

  void expect(const Tensor& tensor, at::IntArrayRef sizes, const char* name) const {
    TORCH_CHECK_VALUE(tensor.sizes() == sizes && tensor.scalar_type() == type_ && tensor.device() == device_,
                      "FfdCache: ", name, " is ", tensor.scalar_type(), " ", tensor.sizes(), " on ", tensor.device(),
                      ", expected ", type_, " ", sizes, " on ", device_);
  }

  void expect_floats(const Tensor& tensor, std::int64_t count, const char* name) const {
    TORCH_CHECK_VALUE(tensor.dim() == 1 && tensor.size(0) == count && tensor.scalar_type() == at::kFloat &&
                          tensor.is_contiguous() && tensor.device() == device_,
                      "FfdCache: ", name, " is ", tensor.scalar_type(), " ", tensor.sizes(), " on ", tensor.device(),
                      ", expected contiguous float32 [", count, "] on ", device_);
  }

  c10::Device device_;
  at::ScalarType type_;
  std::int64_t tokens_;
  std::optional<FfdCache> cache_;
};

std::tuple<Tensor, Tensor, Tensor> ffd_decode(const c10::intrusive_ptr<FfdCacheHolder>& cache, const Tensor& q,
                                              const Tensor& delta, double scale, const std::optional<Tensor>& sinks,
                                              std::int64_t sub_block, std::string_view pseudo_max) {
  return cache->decode(q, delta, scale, sinks, sub_block, std::string(pseudo_max));
}

}  // namespace
}  // namespace attest

TORCH_LIBRARY_FRAGMENT(attest, library) {
  using attest::FfdCacheHolder;
  library.class_<FfdCacheHolder>("FfdCache")
      .def(torch::init<const at::Tensor&, const at::Tensor&, std::int64_t, std::int64_t, std::int64_t>(), "",
           {torch::arg("k"), torch::arg("v"), torch::arg("num_query_heads"), torch::arg("max_tokens"),
            torch::arg("bits") = 2})
      .def("append", &FfdCacheHolder::append)
      .def("tokens", &FfdCacheHolder::tokens)
      .def("bytes", &FfdCacheHolder::bytes);
  library.def(
      "ffd_decode(__torch__.torch.classes.attest.FfdCache cache, Tensor q, Tensor delta, float scale, Tensor? "
      "sinks=None, int sub_block=128, str pseudo_max='thumbnail') -> (Tensor out, Tensor lse, Tensor kept)");
}

TORCH_LIBRARY_IMPL(attest, CUDA, library) { library.impl("ffd_decode", attest::ffd_decode); }
TORCH_LIBRARY_IMPL(attest, Autograd, library) {
  library.impl("ffd_decode", torch::autograd::autogradNotImplementedFallback());
}
