// Copies of small host arrays to the device.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/device/device_arena.h"

namespace attest {

/// put() copies the array to a staging buffer at once, and a kernel fetches it in stream order. (A copy by the copy
/// engine would queue behind a layer that is being copied on another stream.)
class Uploads {
 public:
  /// Device copy of `values`, alive as long as the arena's scope.
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
  /// Reuses the staging buffers. All copies must be complete.
  void reset() { slab_ = used_ = 0; }

 private:
  const void* put_bytes(const void* from, std::size_t bytes, DeviceArena& arena, cudaStream_t stream);
  std::vector<const void*> put_arrays(std::span<const std::span<const std::byte>> arrays, DeviceArena& arena,
                                      cudaStream_t stream);
  std::vector<PageLockedBuffer> slabs_;
  std::size_t slab_ = 0, used_ = 0;
};

}  // namespace attest
