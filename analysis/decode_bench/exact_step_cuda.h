// Decode on 16-bit keys and values: copies of the inputs as ExactCache, and what its methods share.
#pragma once

#include <vector>

#include "analysis/decode_bench/decode_method_cuda.h"
#include "analysis/decode_bench/kept_share.h"
#include "kernels/decode/baselines/exact_cache_cuda.h"

namespace attest {

class ExactStep {
 public:
  /// Throws NotMeasurable if the kernels do not take the shape.
  explicit ExactStep(const DecodeContext& context);

  /// The inputs' copy number `copy`.
  ExactCache cache(int copy) const;
  int copies() const { return static_cast<int>(copies_.size()); }
  const void* q() const { return context_.inputs.q.data(); }

  /// Sub-blocks of `sub_block` tokens.
  KeptSubBlocks units(int sub_block) const;

  /// Bytes of all keys, and of `kept` sub-blocks' values; the tail is read whole.
  double bytes(std::int64_t kept, int sub_block) const;

 private:
  DecodeContext context_;
  const std::vector<KeysValues>& copies_;
  DeviceBuffer lengths_;
};

}  // namespace attest
