// What the tests of FFD's decode have in common: problems, tolerances, and kinds of caches.
#pragma once

#include <vector>

#include "tests/kernels/decode/cache_on_gpu.h"

namespace attest::test {

/// Tensor cores take weights of 16 bits; the reference keeps them in float32.
inline DecodeTolerance tolerance_of(const FfdCacheShape& shape) {
  if (shape.layout == FfdCacheLayout::row_major) return {};
  return {.weight = shape.element_type == ElementType::float16 ? 0x1p-11 : 0x1p-8};
}

inline DecodeProblem problem_of(const FfdCacheShape& shape, const FfdDecodeOptions& options,
                                const std::vector<int>& lengths, bool with_sinks = false) {
  DecodeProblem problem = make_decode_problem(shape, options, lengths, with_sinks, 11);
  calibrate_delta(problem, 0.35);
  return problem;
}

struct DecodeKind {
  FfdCacheLayout layout;
  ElementType type;
  friend std::ostream& operator<<(std::ostream& out, const DecodeKind& k) {
    return out << (k.layout == FfdCacheLayout::fragments ? "fragments_" : "row_major_") << name_of(k.type);
  }
};

class FfdDecode : public OnGpuWith<DecodeKind> {
 protected:
  FfdCacheShape shape(int batch, std::int64_t max_tokens = 1100, int group = 4) const {
    const bool fragments = GetParam().layout == FfdCacheLayout::fragments;
    return {.batch = batch,
            .num_kv_heads = 2,
            .group = group,
            .head_dim = fragments ? 64 : 80,
            .value_dim = fragments ? 64 : 72,
            .max_tokens = max_tokens,
            .element_type = GetParam().type,
            .layout = GetParam().layout};
  }
};

inline auto decode_kinds() {
  return testing::Values(DecodeKind{FfdCacheLayout::fragments, ElementType::float16},
                         DecodeKind{FfdCacheLayout::fragments, ElementType::bfloat16},
                         DecodeKind{FfdCacheLayout::row_major, ElementType::float16},
                         DecodeKind{FfdCacheLayout::row_major, ElementType::bfloat16});
}

}  // namespace attest::test
