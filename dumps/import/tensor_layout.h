// How the axes of an imported array stand for samples, heads, tokens and channels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/import/tensor_source.h"

namespace attest {

/// Extent and distance of neighbours, both in elements.
struct TensorAxis {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
};

/// Element (b, h, t, d) of an array lies at b * batch.stride + h * head.stride + t * token.stride + d * channel.stride.
struct TensorView {
  TensorAxis batch, head, token, channel;

  std::int64_t offset(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return b * batch.stride + h * head.stride + t * token.stride;
  }
  /// Rows of D channels lie together, heads [H, T, D] or tokens [T, H, D] follow each other, samples last.
  bool is_htd() const;
  bool is_thd() const;
  /// All of one sample lies together.
  bool batch_is_slowest() const;
};

/// Letters for the axes, slowest first: B sample, H head, T token (of q: query), D channel. A letter that is left out
/// is an axis of one. Throws UsageError for other letters, a letter twice, or no D.
class TensorLayout {
 public:
  explicit TensorLayout(std::string letters);

  /// An array with one axis more than letters has B in front; with one axis less it has no B.
  /// Throws InputError when the number of axes does not fit or one of them is 0.
  TensorView view(const SourceTensor& tensor) const;

  const std::string& letters() const { return letters_; }

 private:
  std::string letters_;
};

}  // namespace attest
