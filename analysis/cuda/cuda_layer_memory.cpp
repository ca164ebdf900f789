// Sizes of slots and of scratch memory. Buffers never shrink, so that what they take is counted, not what they need.
#include "analysis/cuda/cuda_layer_memory.h"

#include <algorithm>
#include <string>

#include "analysis/cuda/cuda_layer_plan.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

constexpr std::size_t kStoresShare = 4;  // of all memory
constexpr std::size_t kZerosShare = 64, kMostZeros = std::size_t{64} << 20;
constexpr std::size_t kFetched = 16;  // Uploads::copy() writes so many bytes at a time

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

CudaLayerMemory::CudaLayerMemory(std::size_t bytes, bool side_by_side) : bytes_(bytes), side_by_side_(side_by_side) {
  stores_->max_per_store = bytes_ / kStoresShare / kLayersAtOnce;
  for (std::size_t i = 0; i < kChunks; ++i) chunks_.emplace_back(0);
  for (std::size_t i = 0; i < kSelectorStreams; ++i) selectors_.emplace_back(0);
}

template <class Call>
void CudaLayerMemory::for_each_arena(Call&& call) {
  for (std::vector<DeviceArena>* arenas : {&chunks_, &selectors_}) std::ranges::for_each(*arenas, call);
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
    slot.q.reserve((of_layer.q + kFetched - 1) / kFetched * kFetched);
    slot.k.reserve(of_layer.k * static_cast<std::size_t>(heads));
    slot.v.reserve(of_layer.v * static_cast<std::size_t>(heads));
    inputs += slot.q.size() + slot.k.size() + slot.v.size();
  }
  scratch_ = bytes_ - std::min(bytes_, inputs + zeros_.size());
  limit_arenas();
  if (!idle) return;
  bool several = false;
  for_each_arena([&](const DeviceArena& arena) { several = several || arena.has_several_slabs(); });
  if (!several) return;
  stream.synchronize();
  for_each_arena([](DeviceArena& arena) { arena.merge_slabs(); });
}

const std::byte* CudaLayerMemory::zeros(std::size_t bytes, const CudaStream& stream) {
  if (bytes > std::min(bytes_ / kZerosShare, kMostZeros)) return nullptr;
  zeros_.reserve(bytes);
  ATTEST_CUDA(cudaMemsetAsync(zeros_.data(), 0, bytes, stream));
  return zeros_.data();
}

InputSlot& CudaLayerMemory::next_slot() {
  InputSlot& slot = slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % slots_.size();
  return slot;
}

void CudaLayerMemory::stop_side_by_side() {
  for_each_arena([](DeviceArena& arena) { arena.release(); });
  side_by_side_ = false;
  limit_arenas();
}

std::size_t CudaLayerMemory::max_elements(const AttentionLayer& layer) {
  if (max_elements_ > 0) return max_elements_;
  const std::size_t of_element = side_by_side_ ? kBytesSideBySide : kBytesPerElement;
  max_elements_ = std::clamp<std::size_t>(chunks_[0].limit() / of_element, 1, kMostElements);
  const std::size_t of_layer = static_cast<std::size_t>(layer.num_queries() * layer.shape.num_query_heads) *
                               static_cast<std::size_t>(longest_row(layer));
  const std::size_t bytes = std::min(max_elements_, of_layer) * of_element;
  for_each_arena([&](DeviceArena& arena) { arena.reserve(bytes); });
  return max_elements_;
}

void CudaLayerMemory::limit_arenas() {
  const std::size_t part = scratch_ / (kChunks + kSelectorStreams);
  for_each_arena([&](DeviceArena& arena) { arena.set_limit(side_by_side_ ? part : 0); });
  if (!side_by_side_) chunks_[0].set_limit(scratch_);
}

}  // namespace attest
