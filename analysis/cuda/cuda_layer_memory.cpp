// Sizes of slots and of scratch memory. Buffers never shrink, so that what they take is counted, not what they need.
#include "analysis/cuda/cuda_layer_memory.h"

#include <algorithm>
#include <string>

#include "analysis/cuda/cuda_layer_plan.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

constexpr std::size_t kSecondShare = 3;  // the second stream has a third of the scratch memory
constexpr std::size_t kStoresShare = 4;  // of all memory

}  // namespace

LayerBytes::LayerBytes(const AttentionLayer& layer) {
  const AttentionShape& shape = layer.shape;
  const auto bytes = [&](std::int64_t rows, int channels) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(channels) * size_of(layer.element_type);
  };
  q = bytes(layer.num_queries() * shape.num_query_heads, shape.head_dim);
  k = bytes(layer.num_tokens, shape.head_dim);
  v = bytes(layer.num_tokens, shape.value_dim);
}

CudaLayerMemory::CudaLayerMemory(std::size_t bytes, bool second_stream)
    : bytes_(bytes), second_stream_(second_stream), arena_(0), second_arena_(0) {
  stores_->max_per_store = bytes_ / kStoresShare / (kLayersSubmitted + 1);
}

int CudaLayerMemory::heads_per_slot(const AttentionLayer& layer) const {
  const LayerBytes of_layer(layer);
  const std::size_t slots = bytes_ / 2 - std::min<std::size_t>(bytes_ / 2, stores_->taken);
  return static_cast<int>(std::clamp<std::size_t>(slots / 2 / (of_layer.k + of_layer.v), 1,
                                                  static_cast<std::size_t>(layer.shape.num_kv_heads)));
}

void CudaLayerMemory::size_for(const AttentionLayer& layer, int heads, std::size_t stores, bool idle,
                               const CudaStream& stream) {
  const LayerBytes of_layer(layer);
  std::size_t inputs = std::max<std::size_t>(stores, stores_->taken);
  const std::size_t minimum =
      inputs + slots_.size() * (of_layer.q + (heads > 0 ? of_layer.k + of_layer.v : std::size_t{0}));
  if (minimum > bytes_)
    throw DeviceError("layer " + std::to_string(layer.layer) + ": two buffers for one KV head's keys and values need " +
                      std::to_string(minimum >> 20) + " MiB of device memory, " + std::to_string(bytes_ >> 20) +
                      " MiB may be used: raise --device-memory, or choose --device cpu");
  for (InputSlot& slot : slots_) {
    slot.q.reserve(of_layer.q);
    slot.k.reserve(of_layer.k * static_cast<std::size_t>(heads));
    slot.v.reserve(of_layer.v * static_cast<std::size_t>(heads));
    inputs += slot.q.size() + slot.k.size() + slot.v.size();
  }
  scratch_ = bytes_ - std::min(bytes_, inputs);
  limit_arenas();
  if (idle && (arena_.has_several_slabs() || second_arena_.has_several_slabs())) {
    stream.synchronize();
    arena_.merge_slabs();
    second_arena_.merge_slabs();
  }
}

InputSlot& CudaLayerMemory::next_slot() {
  InputSlot& slot = slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % slots_.size();
  return slot;
}

void CudaLayerMemory::drop_second_stream() {
  second_arena_.release();
  second_stream_ = false;
  limit_arenas();
}

std::size_t CudaLayerMemory::max_elements(const AttentionLayer& layer) {
  if (max_elements_ > 0) return max_elements_;
  max_elements_ = std::max<std::size_t>(1, arena_.limit() / kBytesPerElement);
  const std::size_t of_layer = static_cast<std::size_t>(layer.num_queries() * layer.shape.num_query_heads) *
                               static_cast<std::size_t>(longest_row(layer));
  const std::size_t bytes = std::min(max_elements_, of_layer) * kBytesPerElement;
  arena_.reserve(bytes);
  if (second_stream_) second_arena_.reserve(std::min(second_arena_.limit(), bytes / kSecondShare));
  return max_elements_;
}

void CudaLayerMemory::limit_arenas() {
  const std::size_t of_second = second_stream_ ? scratch_ / kSecondShare : 0;
  second_arena_.set_limit(of_second);
  arena_.set_limit(scratch_ - of_second);
}

}  // namespace attest
