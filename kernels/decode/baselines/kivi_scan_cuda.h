// The scan of KIVI's 2-bit keys as a selection would need it: one query's scores of every token, from codes per channel
// in groups of 32 tokens with 16-bit scale and minimum (quantize/kivi_groups.h, QuantArithmetic::dump).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/decode/baselines/exact_cache_cuda.h"
#include "kernels/device/buffers.h"

namespace attest {

inline constexpr int kKiviGroup = 32;    ///< tokens of a group
inline constexpr int kKiviWindow = 128;  ///< tokens that become codes at a time

/// Tokens of a sequence that are codes: all but the last 1 .. kKiviWindow.
__host__ __device__ constexpr int kivi_quantised_tokens(int length) { return (length - 1) / kKiviWindow * kKiviWindow; }

/// Device pointers. A group's codes are in the order in which the lanes of a warp take them. Word w of 2 D words is
/// word w % 4 of lane w / 4 % 32; k = w / 128 * 4 + w % 4 gives its channels, from c = k / 2 * 32 + lane % 4 * 8 on,
/// and its tokens t = k % 2 * 16 + lane / 4 and t + 8. Bits 2 r and 2 r + 16, r < 8, are the codes of channels
/// c + r % 4 * 2 and c + r % 4 * 2 + 1 of token t + r / 4 * 8.
struct KiviKeysView {
  int pairs = 0, head_dim = 0, max_groups = 0;
  std::uint32_t* codes = nullptr;   ///< [pairs, max_groups, 2 D]
  std::uint16_t* scales = nullptr;  ///< [pairs, max_groups, D] of the cache's element type
  std::uint16_t* lowest = nullptr;  ///< [pairs, max_groups, D]
};

/// Owns the codes of one layer's keys.
class KiviKeys2Bit {
 public:
  /// Allocates memory for a cache of this shape. Throws InputError on a shape that is not supported.
  explicit KiviKeys2Bit(const ExactCache& shape);

  const KiviKeysView& view() const { return view_; }
  /// Enqueues the quantisation of the cache's keys. Throws InputError on a cache of another shape.
  void build(const ExactCache& cache, cudaStream_t stream);

 private:
  KiviKeysView view_;
  DeviceBuffer memory_;
};

/// scores [pairs, max_tokens, G] = scale q.k^, k^ the dequantised key, or the cache's own for the tokens that are no
/// codes. Neither allocates nor waits for the device. Bitwise repeatable. Throws InputError if the codes are of another
/// shape.
void cuda_kivi_scan(const ExactCache& cache, const KiviKeysView& keys, const void* q, float* scores,
                    cudaStream_t stream);

}  // namespace attest
