// torch.classes.attest.FfdCache: its checks, which need no GPU, and what the code of a GPU adds.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "kernels/decode/base/ffd_shape.h"

namespace attest {

/// Pointers of a decode call; `delta` [Hkv] and `sinks` [Hq] (or undefined) are float32.
struct FfdTensors {
  at::Tensor q, delta, sinks, out, lse, kept;
};

/// The cache on a GPU. All of it is enqueued on the current stream.
class FfdMemory {
 public:
  virtual ~FfdMemory() = default;
  virtual void build(const at::Tensor& k, const at::Tensor& v) = 0;
  virtual void append(const at::Tensor& k, const at::Tensor& v) = 0;
  /// kept_share [batch, Hkv], of sequences of `tokens` tokens.
  virtual void deal(std::span<const float> kept_share, std::int64_t tokens) = 0;
  virtual void decode(const FfdDecodeOptions& options, const FfdTensors& tensors) const = 0;
  virtual std::int64_t bytes() const = 0;
};

using FfdMemoryMaker = std::unique_ptr<FfdMemory> (*)(const FfdCacheShape& shape, const c10::Device& device);
/// Null in a library without CUDA. torch_ffd_cuda.cpp sets it.
FfdMemoryMaker& ffd_memory_maker();

using FfdResults = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// On a GPU, or on the meta device: there it has sizes and no memory.
class FfdCacheHolder : public torch::CustomClassHolder {
 public:
  /// k [batch, Hkv, T, D] and v [batch, Hkv, T, Dv] of the prompts' tokens.
  FfdCacheHolder(const at::Tensor& k, const at::Tensor& v, std::int64_t num_query_heads, std::int64_t max_tokens,
                 std::int64_t bits);

  /// k [batch, Hkv, 1, D] and v [batch, Hkv, 1, Dv] of the next token of every sequence. Refused where the cache is
  /// full. Replays of a CUDA graph do not come here: tokens() does not count what they append, and to a full cache they
  /// append nothing. Meta tensors are appended to a cache of meta tensors alone.
  void append(const at::Tensor& k, const at::Tensor& v);

  /// Thread blocks of later decodes go to KV heads by the shares of the full blocks that each keeps, known from decodes
  /// before: kept_share [batch, Hkv], from 0 to 1 (deal_ffd_decode()). Waits for a tensor on a GPU.
  void deal(const at::Tensor& kept_share);

  /// q [batch, Hq, 1, D] and delta [Hkv] -> out [batch, Hq, 1, Dv], lse [batch, Hq, 1], and how many sub-blocks of the
  /// full blocks each KV head keeps [batch, Hkv, 1]. The tokens after the full blocks are always kept. On meta tensors
  /// nothing is computed, whatever device the cache is on.
  FfdResults decode(const at::Tensor& q, const at::Tensor& delta, double scale, const std::optional<at::Tensor>& sinks,
                    std::int64_t sub_block, const std::string& pseudo_max) const;

  std::int64_t tokens() const { return tokens_; }
  std::int64_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  void expect(const at::Tensor& tensor, at::IntArrayRef sizes, const char* name) const;
  void expect_floats(const at::Tensor& tensor, std::int64_t count, const char* name) const;
  bool is_here(const at::Tensor& tensor) const { return tensor.is_meta() || tensor.device() == device_; }

  c10::Device device_;
  at::ScalarType type_;
  std::int64_t tokens_;
  FfdCacheShape shape_;
  std::unique_ptr<FfdMemory> memory_;  ///< null on the meta device
};

}  // namespace attest
