// One layer of one sample of a dump, in host memory: what flows from dumps/ to everything downstream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <utility>
#include <vector>

#include "dumps/element_type.h"

namespace attest {

/// Head counts and dimensions of a model's attention (the same for all its layers).
struct AttentionShape {
  int num_query_heads = 0;  ///< Hq
  int num_kv_heads = 0;     ///< Hkv, divides Hq
  int head_dim = 0;         ///< D, of q and k
  int value_dim = 0;        ///< Dv, of v

  int group() const { return num_query_heads / num_kv_heads; }  ///< G, query heads per KV head
  bool operator==(const AttentionShape&) const = default;
};

/// Uninitialised bytes from a memory resource, so that a caller can have them page-locked for device copies.
class LayerBuffer {
 public:
  explicit LayerBuffer(std::pmr::memory_resource* memory = std::pmr::get_default_resource()) : memory_(memory) {}
  LayerBuffer(LayerBuffer&& other) noexcept { *this = std::move(other); }
  LayerBuffer& operator=(LayerBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~LayerBuffer() { release(); }

  /// Keeps the allocation when it is large enough; the content is undefined afterwards.
  void resize(std::size_t bytes) {
    if (bytes > capacity_) {
      release();
      data_ = static_cast<std::byte*>(memory_->allocate(bytes, kAlignment));
      capacity_ = bytes;
    }
    size_ = bytes;
  }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  void release() {
    if (data_ != nullptr) memory_->deallocate(data_, capacity_, kAlignment);
    data_ = nullptr;
    capacity_ = size_ = 0;
  }
  std::pmr::memory_resource* memory_ = std::pmr::get_default_resource();
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Half-open range of token positions.
struct TokenSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const TokenSpan&) const = default;
};

/// q [N, Hq, D], k [Hkv, T, D], v [Hkv, T, Dv], row-major, all of one element type, after RoPE, before the softmax
/// scale. The query at position p sees the keys max(0, p - sliding_window + 1) .. p.
struct AttentionLayer {
  explicit AttentionLayer(std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : q(memory), k(memory), v(memory) {}

  int layer = 0;  ///< number within the model
  AttentionShape shape;
  ElementType element_type = ElementType::float32;
  double softmax_scale = 0;
  double logit_softcap = 0;                   ///< c of s <- c tanh(s/c); 0: none
  std::int64_t sliding_window = 0;            ///< 0: none
  std::int64_t num_tokens = 0;                ///< T
  std::vector<std::int64_t> query_positions;  ///< [N], strictly ascending, each < T
  std::vector<TokenSpan> spans;               ///< evidence spans of the sample; may be empty, may overlap
  std::vector<float> sinks;                   ///< [Hq] learned sink logits, on the scale of the scores; empty: none
  LayerBuffer q, k, v;

  std::int64_t num_queries() const { return static_cast<std::int64_t>(query_positions.size()); }
};

}  // namespace attest
