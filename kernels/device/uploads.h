// Copies of small host arrays to the device.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/device/device_arena.h"

namespace attest {

/// Small arrays that stay on the device, because layers of one shape send the same ones: of 1262 copies that a study of
/// 32 layers enqueued, 40 differed. Each stream has copies of its own, so that it need not wait for another.
class KeptUploads {
 public:
  /// The copy of an array in `stream`; null if it is not kept: it is large, or there is no room for more.
  const void* find_or_fetch(std::span<const std::byte> array, cudaStream_t stream);

 private:
  static constexpr std::size_t kLargest = std::size_t{32} << 10, kSlab = std::size_t{1} << 20, kMaxSlabs = 8;
  struct Slab {
    PageLockedBuffer host{kSlab};
    DeviceBuffer device{kSlab};
    std::size_t used = 0;
  };
  std::deque<Slab> slabs_;
  std::unordered_map<std::string, const void*> places_;  ///< of the stream's handle, followed by the array
};

/// put() copies the array to a staging buffer at once, and a kernel fetches it in stream order. (A copy by the copy
/// engine would queue behind a layer that is being copied on another stream.)
class Uploads {
 public:
  /// `kept`: where small arrays are looked for; null: nowhere. It must outlive this object.
  explicit Uploads(KeptUploads* kept = nullptr) : kept_(kept) {}
  /// Device copy of `values`, alive as long as the arena's scope. It must not be written to.
  template <class T>
  const T* put(std::span<const T> values, DeviceArena& arena, cudaStream_t stream) {
    return static_cast<const T*>(put_bytes(values.data(), values.size_bytes(), arena, stream));
  }
  /// Several arrays with one fetch: their device copies, in order.
  template <class... T>
  std::tuple<const T*...> put_all(DeviceArena& arena, cudaStream_t stream, const std::vector<T>&... values) {
    const std::array<std::span<const std::byte>, sizeof...(T)> arrays{std::as_bytes(std::span(values))...};
    const std::vector<const void*> at = put_arrays(arrays, arena, stream);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<const T*...>(static_cast<const T*>(at[I])...);
    }
    (std::index_sequence_for<T...>{});
  }
  /// The same to memory of the caller, whose size is a multiple of 16 bytes.
  void copy(std::span<const std::byte> array, std::byte* to, cudaStream_t stream);
  /// Reuses the staging buffers. All copies must be complete.
  void reset() { slab_ = used_ = 0; }

 private:
  const void* put_bytes(const void* from, std::size_t bytes, DeviceArena& arena, cudaStream_t stream);
  std::byte* take_staged(std::size_t bytes);
  std::vector<const void*> put_arrays(std::span<const std::span<const std::byte>> arrays, DeviceArena& arena,
                                      cudaStream_t stream);

  KeptUploads* kept_;
  std::vector<PageLockedBuffer> slabs_;
  std::size_t slab_ = 0, used_ = 0;
};

}  // namespace attest
