// The memory of FfdCache on a GPU, and its decode kernel, on the current stream.
#include <c10/core/impl/VirtualGuardImpl.h>

#include <vector>

#include "analysis/torch_ops/torch_arguments.h"
#include "analysis/torch_ops/torch_ffd.h"
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

class CudaFfdMemory final : public FfdMemory {
 public:
  CudaFfdMemory(const FfdCacheShape& shape, const c10::Device& device) : device_(device) {
    with_device([&](cudaStream_t) { cache_.emplace(shape); });
  }

  void build(const Tensor& k, const Tensor& v) override {
    with_device([&](cudaStream_t stream) {
      const std::vector<int> lengths(static_cast<std::size_t>(k.size(0)), static_cast<int>(k.size(2)));
      cache_->build(k.const_data_ptr(), v.const_data_ptr(), k.size(2), lengths.data(), stream);
    });
  }

  void append(const Tensor& k, const Tensor& v) override {
    with_device([&](cudaStream_t stream) { cache_->append(k.const_data_ptr(), v.const_data_ptr(), stream); });
  }

  void deal(std::span<const float> kept_share, std::int64_t tokens) override {
    with_device([&](cudaStream_t) { deal_ = deal_ffd_decode(*cache_, kept_share, tokens); });
  }

  void decode(const FfdDecodeOptions& options, const FfdTensors& tensors) const override {
    with_device([&](cudaStream_t stream) {
      cuda_ffd_decode(*cache_, options,
                      {.q = tensors.q.const_data_ptr(),
                       .delta = tensors.delta.const_data_ptr<float>(),
                       .sinks = tensors.sinks.defined() ? tensors.sinks.const_data_ptr<float>() : nullptr,
                       .out = tensors.out.mutable_data_ptr(),
                       .lse = tensors.lse.mutable_data_ptr<float>(),
                       .kept = tensors.kept.mutable_data_ptr<int>()},
                      stream, &deal_);
    });
  }

  std::int64_t bytes() const override { return static_cast<std::int64_t>(cache_->bytes()); }

 private:
  template <class Action>
  void with_device(Action&& action) const {
    const OnDevice here(device_);
    with_python_errors([&] { action(here.stream(device_)); });
  }

  c10::Device device_;
  std::optional<FfdCache> cache_;
  FfdDeal deal_;  ///< none before deal()
};

std::unique_ptr<FfdMemory> make_memory(const FfdCacheShape& shape, const c10::Device& device) {
  return std::make_unique<CudaFfdMemory>(shape, device);
}

[[maybe_unused]] const bool registered = [] {
  ffd_memory_maker() = make_memory;
  return true;
}();

}  // namespace
}  // namespace attest
