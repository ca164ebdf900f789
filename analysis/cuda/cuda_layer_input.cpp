// Copies of queries, keys and values, and the wait for what arrives in a store.
#include "analysis/cuda/cuda_layer_input.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "dumps/kv_source.h"

namespace attest {
namespace {

// Keys and values that are computed while the rest of their layer arrives: less does not fill the device. With 256 MiB,
// two layers of 256K tokens and 4 queries kept an H200 busy for 0.151 s, with all at once for 0.083 s.
constexpr std::size_t kMinArrived = std::size_t{1} << 30;
constexpr std::size_t kFewQueries = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kArrivalWait{20};  // before it looks for an interruption

}  // namespace

CudaLayerInput::CudaLayerInput(int device, int multiprocessors, bool as_a_whole, CudaLayerMemory& memory,
                               const CudaStream& computing, const CudaStream& computed,
                               std::function<void()> throw_if_stopped)
    : device_(device),
      multiprocessors_(multiprocessors),
      as_a_whole_(as_a_whole),
      memory_(memory),
      computing_(computing),
      computed_(computed),
      throw_if_stopped_(std::move(throw_if_stopped)) {}

std::shared_ptr<LayerStore> CudaLayerInput::make_layer_store() {
  if (!ring_) ring_ = std::make_shared<CudaPieceRing>(device_);
  return std::make_shared<CudaLayerStore>(device_, ring_, memory_.stores());
}

void CudaLayerInput::add_copies_to(std::vector<StageTime>& times) const {
  if (!ring_) return;
  const StageTime copies = ring_->time();
  const auto found = std::ranges::find(times, copies.name, &StageTime::name);
  if (found == times.end()) return times.push_back(copies);
  found->seconds += copies.seconds;
  found->bytes += copies.bytes;
}

std::vector<KvHeadRange> CudaLayerInput::ranges(const AttentionLayer& layer, bool idle) {
  const AttentionShape& shape = layer.shape;
  const int fit = memory_.heads_per_slot(layer);
  memory_.size_for(layer, fit, 0, idle, computed_);
  const int at_once = std::min(fit, heads_at_once(layer, idle));
  std::vector<KvHeadRange> ranges;
  for (int first = 0; first < shape.num_kv_heads; first += at_once)
    ranges.push_back({first, std::min(at_once, shape.num_kv_heads - first)});
  return ranges;
}

void CudaLayerInput::copy(const AttentionLayer& layer, const KvHeadRange& heads, StageClock& clock,
                          const Compute& compute) {
  InputSlot& slot = copy_to_slot(layer, heads, clock);
  compute({.q = slot.q.data(), .k = slot.k.data(), .v = slot.v.data(), .heads = heads});
  slot.free.record(computed_);
}

void CudaLayerInput::make_room_for_stored(const AttentionLayer& layer, bool idle) {
  const LayerBytes bytes(layer);
  const auto heads = static_cast<std::size_t>(layer.shape.num_kv_heads);
  memory_.size_for(layer, 0, kLayersAtOnce * heads * (bytes.k + bytes.v), idle, computed_);
}

/// Heads that have arrived are computed together: at least kMinArrived bytes of them.
void CudaLayerInput::take_stored(const AttentionLayer& layer, bool idle, Uploads& uploads, StageClock& clock,
                                 const Compute& compute) {
  auto& store = dynamic_cast<CudaLayerStore&>(*layer.store);
  const LayerBytes bytes(layer);
  const std::size_t k = bytes.k, v = bytes.v;
  const int all = layer.shape.num_kv_heads,
            minimum = as_a_whole_
                          ? all
                          : std::min(static_cast<int>(std::min<std::size_t>((kMinArrived - 1) / (k + v) + 1, all)),
                                     heads_at_once(layer, idle));
  make_room_for_stored(layer, idle);
  InputSlot& slot = memory_.next_slot();
  copy_queries(layer, slot, uploads);
  for (int first = 0; first < all;) {
    const int wanted = std::min(all, first + minimum), arrived = wait_for_heads(store, wanted);
    if (arrived < wanted) break;  // no more come: the results mean nothing
    const auto before = static_cast<std::size_t>(first), count = static_cast<std::size_t>(arrived - first);
    store.make_ready({before * k, count * k}, {before * v, count * v}, clock, computing_);
    if (arrived == all) store.hash(clock);
    compute({.q = slot.q.data(),
             .k = store.keys() + before * k,
             .v = store.values() + before * v,
             .heads = {first, arrived - first}});
    first = arrived;
  }
  slot.free.record(computed_);
  store.wait_for_hashes(computed_);  // hashes of a short layer take longer than its study
}

/// While a part of a layer that the device waits for is computed, the rest is copied. A part has a row for every
/// multiprocessor: many kernels have a thread block for each row.
int CudaLayerInput::heads_at_once(const AttentionLayer& layer, bool idle) const {
  const int all = layer.shape.num_kv_heads;
  const std::int64_t rows = layer.num_queries() * layer.shape.group();  // of a KV head
  if (as_a_whole_ || !idle || rows == 0) return all;
  const auto filling = static_cast<int>(std::min<std::int64_t>((multiprocessors_ + rows - 1) / rows, all));
  return std::max((all + 1) / 2, filling);
}

/// The number of heads that have arrived, at least so many unless no more come.
int CudaLayerInput::wait_for_heads(const CudaLayerStore& store, int heads) const {
  for (;;) {
    throw_if_stopped_();
    const KvArrival::State state = store.arrival.wait(heads, kArrivalWait);
    if (state.heads >= heads || state.ended) return state.heads;
  }
}

/// While the copy engine has pieces of keys and values, it serves no other stream than theirs. Few queries go past it;
/// many are copied among the pieces.
void CudaLayerInput::copy_queries(const AttentionLayer& layer, InputSlot& slot, Uploads& uploads) {
  const std::size_t bytes = LayerBytes(layer).q;
  if (bytes <= kFewQueries) {
    slot.free.make_wait(computing_);
    uploads.copy({layer.q.data(), bytes}, slot.q.data(), computing_);
    return;
  }
  ring_->wait_for(slot.free);
  ring_->copy_from(layer.q.data(), slot.q.data(), bytes, slot.copied);
  slot.copied.make_wait(computing_);
}

/// Keys and values of a layer with a source are read here.
InputSlot& CudaLayerInput::copy_to_slot(const AttentionLayer& layer, const KvHeadRange& heads, StageClock& clock) {
  const auto [q, k, v] = LayerBytes(layer);
  const auto first = static_cast<std::size_t>(heads.first), count = static_cast<std::size_t>(heads.count);
  InputSlot& slot = memory_.next_slot();
  slot.free.make_wait(copying_);
  const std::size_t in_memory = layer.source ? 0 : count;
  {
    const StageClock::Stage stage(clock, std::string(kHostCopyStage), copying_,
                                  static_cast<double>(q + in_memory * (k + v)));
    const auto enqueue = [this](DeviceBuffer& to, const std::byte* from, std::size_t bytes) {
      if (bytes > 0) ATTEST_CUDA(cudaMemcpyAsync(to.data(), from, bytes, cudaMemcpyHostToDevice, copying_));
    };
    enqueue(slot.q, layer.q.data(), q);
    enqueue(slot.k, layer.k.data() + first * k, in_memory * k);
    enqueue(slot.v, layer.v.data() + first * v, in_memory * v);
  }
  slot.copied.record(copying_);
  slot.copied.make_wait(computing_);
  if (!layer.source) return slot;
  ring_->wait_for(slot.free);
  layer.source->read(heads.first, heads.count,
                     [&](KvTensor tensor, std::size_t offset, std::size_t bytes, const LayerStore::Fill& fill) {
                       throw_if_stopped_();
                       ring_->copy((tensor == KvTensor::k ? slot.k : slot.v).data() + offset, bytes, fill);
                     });
  ring_->make_wait(computing_);
  return slot;
}

}  // namespace attest
