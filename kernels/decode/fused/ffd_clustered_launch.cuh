// Launches of the clustered decode kernel for one element type; each type is compiled in a file of its own.
#pragma once

#include <array>
#include <atomic>

#include "kernels/decode/fused/ffd_clustered.cuh"
#include "kernels/decode/fused/ffd_fused_launch.cuh"

namespace attest {

inline bool fills_device(std::int64_t ctas) { return ctas * 4 >= std::int64_t{3} * num_multiprocessors(); }

template <class T, int D, int kGroups>
class FfdClusteredGrid {
 public:
  FfdClusteredGrid(std::int64_t pairs, int shift, cudaStream_t stream) : shift_(shift) {
    allow_shared_memory(kKernel, kBytes);
    ATTEST_CUDA(cudaFuncSetAttribute(kKernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    config_.gridDim = dim3(static_cast<unsigned>(pairs << shift));
    config_.blockDim = dim3(kFfdThreads);
    config_.dynamicSmemBytes = kBytes;
    config_.stream = stream;
    attributes_[0].id = cudaLaunchAttributeClusterDimension;
    attributes_[0].val.clusterDim = {1u << shift, 1, 1};
    attributes_[1] = begins_early();
    config_.attrs = attributes_;
    config_.numAttrs = 2;
  }
  FfdClusteredGrid(const FfdClusteredGrid&) = delete;
  FfdClusteredGrid& operator=(const FfdClusteredGrid&) = delete;

  /// How many such clusters the current device holds at a time.
  int resident() const {
    constexpr int kDevices = 64;
    static std::array<std::array<std::atomic<int>, kMaxClusterShift + 1>, kDevices> known{};  // plus one
    int device = 0;
    ATTEST_CUDA(cudaGetDevice(&device));
    std::atomic<int>* const found =
        device < kDevices ? &known[static_cast<std::size_t>(device)][static_cast<std::size_t>(shift_)] : nullptr;
    if (found != nullptr && *found != 0) return *found - 1;
    int clusters = 0;
    if (cudaOccupancyMaxActiveClusters(&clusters, kKernel, &config_) != cudaSuccess) {
      cudaGetLastError();
      return 0;  // for this call: the next one asks again
    }
    if (found != nullptr) *found = clusters + 1;
    return clusters;
  }

  void launch(FfdFusedParams p) const {
    p.cluster_shift = shift_;
    p.fills_device = fills_device(config_.gridDim.x);
    ATTEST_CUDA(cudaLaunchKernelEx(&config_, kKernel, p));
  }

 private:
  static constexpr auto kKernel = ffd_clustered_kernel<T, D, kGroups, 2>;
  static constexpr std::size_t kBytes = sizeof(FfdFusedShared<D, kGroups, 2>);

  int shift_;
  cudaLaunchConfig_t config_{};
  cudaLaunchAttribute attributes_[2]{};
};

/// The most items of a CTA up to which clusters shorten a call. Beyond, what counts is that all multiprocessors have
/// work, and, where sequences may have different lengths, the same amount of it.
inline int max_clustered_items(const FfdFusedParams& p, std::int64_t ctas) {
  return !fills_device(ctas) ? 20 : p.batch == 1 ? 96 : 32;
}

template <class T>
bool launch_ffd_clustered_kernel(const FfdCacheShape& s, const FfdFusedParams& p, cudaStream_t stream) {
  return with_common_ffd_shape(s, [&](auto head_dim, auto groups) {
    for (int shift = kMaxClusterShift; shift >= 0; --shift) {
      const std::int64_t ctas = p.pairs() << shift;
      if (ctas > num_multiprocessors()) continue;
      if ((p.max_blocks >> shift) + 1 > max_clustered_items(p, ctas)) return false;
      const FfdClusteredGrid<T, head_dim(), groups()> grid(p.pairs(), shift, stream);
      if (grid.resident() < p.pairs()) continue;
      grid.launch(p);
      return true;
    }
    return false;
  });
}

}  // namespace attest
