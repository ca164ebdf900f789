// TurboQuant's centroids: Lloyd-Max's for the normal distribution N(0, 1/C), the channels of a rotated unit vector.
#pragma once

namespace attest {

/// Plain arrays: passed to kernels as an argument.
template <int kBits>
struct TurboquantCodebook {
  static constexpr int kLevels = 1 << kBits;
  float centroids[kLevels];
  float midpoints[kLevels - 1];
};

/// Made once for each number of channels.
template <int kBits>
const TurboquantCodebook<kBits>& turboquant_codebook(int channels);
extern template const TurboquantCodebook<3>& turboquant_codebook<3>(int channels);
extern template const TurboquantCodebook<4>& turboquant_codebook<4>(int channels);

}  // namespace attest
