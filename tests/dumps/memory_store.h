// A LayerStore in host memory.
#pragma once

#include <mutex>
#include <vector>

#include "dumps/attention_layer.h"
#include "dumps/format/dump_reader.h"
#include "dumps/layer_store.h"

namespace attest::test {

class MemoryStore : public LayerStore {
 public:
  explicit MemoryStore(std::size_t room = std::size_t{1} << 30) : room_(room) {}

  bool reserve(std::size_t key_bytes, std::size_t value_bytes) override {
    if (key_bytes + value_bytes > room_) return false;
    k.assign(key_bytes, std::byte{0xEE});
    v.assign(value_bytes, std::byte{0xEE});
    return true;
  }
  void put(KvTensor tensor, std::size_t offset, std::size_t bytes, const Fill& fill) override {
    std::vector<std::byte> piece(bytes);
    fill(piece);
    const std::lock_guard lock(mutex_);
    std::ranges::copy(piece, (tensor == KvTensor::k ? k : v).begin() + static_cast<std::ptrdiff_t>(offset));
  }

  std::vector<std::byte> k, v;

 private:
  const std::size_t room_;
  std::mutex mutex_;
};

/// Reads all of a layer into `out` and its store. Returns whether all is finite.
inline bool read_to_store(const DumpReader& dump, std::size_t sample, int layer, AttentionLayer& out, int threads = 4,
                          const BlockObserver& observe = {}) {
  const LayerInfo& info = dump.layer_info(sample, layer);
  const auto heads = static_cast<std::size_t>(dump.info().shape.num_kv_heads);
  if (!out.store->reserve(info.k.bytes, info.v.bytes)) return false;
  out.store->arrival.begin(dump.info().shape.num_kv_heads, info.k.bytes / heads, info.v.bytes / heads);
  const bool finite_queries = dump.read_queries(sample, layer, out, threads, observe);
  const bool finite = dump.read_keys_and_values(sample, layer, *out.store, threads, observe);
  out.store->arrival.end();
  return finite_queries && finite;
}

}  // namespace attest::test
