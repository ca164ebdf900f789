// Makes the copies, and counts device memory.
#include "analysis/decode_bench/input_copies_cuda.h"

#include <algorithm>

#include "analysis/decode_bench/graph_timing_cuda.h"
#include "dumps/base/byte_size.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

/// Room that copies leave to scratch memory of methods and LibTorch.
constexpr std::int64_t kSpare = std::int64_t{512} << 20;

/// How many copies of `bytes` each, of which a call reads `touched`, fit and are needed. The first has been made.
/// Throws NotMeasurable if those that fit are too few to be out of the cache.
int copies_that_fit(const DeviceMemoryBudget& budget, std::int64_t bytes, double touched, const std::string& what) {
  const int wanted = copies_beyond_cache(touched);
  const std::int64_t others = std::max<std::int64_t>(0, (budget.free() - kSpare) / std::max<std::int64_t>(1, bytes));
  if (others < wanted - 1) budget.require((wanted - 1) * bytes + kSpare, std::to_string(wanted) + " copies of " + what);
  return wanted;
}

}  // namespace

DeviceMemoryBudget::DeviceMemoryBudget(const DeviceMemoryLimit& limit) {
  std::size_t free = 0, total = 0;
  ATTEST_CUDA(cudaMemGetInfo(&free, &total));
  limit_ = limit.bytes != 0 ? static_cast<std::int64_t>(limit.bytes)
                            : static_cast<std::int64_t>(limit.share * static_cast<double>(total));
}

std::int64_t DeviceMemoryBudget::free() const {
  std::size_t free = 0, total = 0;
  ATTEST_CUDA(cudaMemGetInfo(&free, &total));
  const auto taken = static_cast<std::int64_t>(total - free);
  return std::clamp<std::int64_t>(limit_ - taken, 0, static_cast<std::int64_t>(free));
}

void DeviceMemoryBudget::require(std::int64_t bytes, const std::string& what) const {
  if (const std::int64_t left = free(); bytes > left)
    throw NotMeasurable(what + " take " + byte_size_text(bytes) + ", " + byte_size_text(left) +
                        " of the device's memory are left");
}

const std::vector<KeysValues>& InputCopies::dense() {
  if (!dense_.empty()) return dense_;
  const std::size_t k = inputs_.k.size(), v = inputs_.v.size();
  const int copies =
      copies_that_fit(budget_, static_cast<std::int64_t>(k + v), static_cast<double>(k), "16-bit keys and values");
  std::vector<KeysValues> made{KeysValues{inputs_.k.data(), inputs_.v.data()}};
  for (int i = 1; i < copies; ++i) {
    const auto copied = [&](const DeviceBuffer& from) {
      dense_memory_.emplace_back(from.size());
      ATTEST_CUDA(
          cudaMemcpyAsync(dense_memory_.back().data(), from.data(), from.size(), cudaMemcpyDeviceToDevice, stream_));
      return dense_memory_.back().data();
    };
    const void* keys = copied(inputs_.k);
    made.push_back({keys, copied(inputs_.v)});
  }
  dense_ = std::move(made);
  return dense_;
}

const std::vector<std::unique_ptr<FfdCache>>& InputCopies::quantised(int bits) {
  if (cached_bits_ == bits && !caches_.empty()) return caches_;
  caches_.clear();
  const KernelInputs& what = inputs_.what;
  const FfdCacheShape shape = cache_shape(what, bits);
  const FfdBlockBytes block = ffd_block_bytes(shape);
  const std::int64_t blocks = shape.pairs() * shape.max_blocks();
  budget_.require(blocks * (block.record + block.residual + block.values) + kSpare, "quantised keys and values");
  const std::vector<int> lengths(static_cast<std::size_t>(what.batch), static_cast<int>(what.length));
  std::vector<std::unique_ptr<FfdCache>> made;
  const auto add = [&] {
    made.push_back(std::make_unique<FfdCache>(shape));
    made.back()->build(inputs_.k.data(), inputs_.v.data(), what.length, lengths.data(), stream_);
  };
  const std::int64_t before = budget_.free();
  add();
  const std::int64_t taken = std::max(before - budget_.free(), static_cast<std::int64_t>(made[0]->bytes()));
  const std::int64_t full = shape.pairs() * (what.length / kFfdBlock);
  const int copies = copies_that_fit(
      budget_, taken, static_cast<double>(std::max<std::int64_t>(1, full) * block.record), "quantised keys and values");
  while (static_cast<int>(made.size()) < copies) add();
  ATTEST_CUDA(cudaStreamSynchronize(stream_));
  caches_ = std::move(made);
  cached_bits_ = bits;
  return caches_;
}

FfdCacheShape cache_shape(const KernelInputs& what, int bits) {
  return {.batch = what.batch,
          .num_kv_heads = what.shape.num_kv_heads,
          .group = what.shape.group(),
          .head_dim = what.shape.head_dim,
          .value_dim = what.shape.value_dim,
          .max_tokens = (what.length + kFfdBlock - 1) / kFfdBlock * kFfdBlock,
          .element_type = what.element_type,
          .bits = bits,
          .layout = FfdCacheLayout::automatic};
}

}  // namespace attest
