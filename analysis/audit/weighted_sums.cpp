// Blocks of four columns and eight channels, whose sums stay in registers.
#include "analysis/audit/weighted_sums.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/vec8.h"

namespace attest {
namespace {

constexpr int kChannels = 8;

template <int Columns>
void add_block(const double* weights, std::int64_t stride, const double* values, std::int64_t count,
               std::int64_t value_stride, double* sums, std::int64_t dim) {
  Vec8d lanes[Columns];
  for (int c = 0; c < Columns; ++c) std::memcpy(&lanes[c], sums + c * dim, sizeof(Vec8d));
  for (std::int64_t t = 0; t < count; ++t) {
    Vec8d value;
    std::memcpy(&value, values + t * value_stride, sizeof(value));
    for (int c = 0; c < Columns; ++c) lanes[c] += weights[c * stride + t] * value;
  }
  for (int c = 0; c < Columns; ++c) std::memcpy(sums + c * dim, &lanes[c], sizeof(Vec8d));
}

}  // namespace

void add_weighted(const double* weights, std::int64_t columns, std::int64_t stride, const double* values,
                  std::int64_t count, std::int64_t dim, std::int64_t value_stride, double* sums) {
  const std::int64_t whole = dim / kChannels * kChannels;
  for (std::int64_t c = 0; c < columns; c += 4)
    for (std::int64_t d = 0; d < whole; d += kChannels) {
      const double* of_columns = weights + c * stride;
      if (columns - c >= 4)
        add_block<4>(of_columns, stride, values + d, count, value_stride, sums + c * dim + d, dim);
      else
        for (std::int64_t one = c; one < columns; ++one)
          add_block<1>(weights + one * stride, stride, values + d, count, value_stride, sums + one * dim + d, dim);
    }
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t d = whole; d < dim; ++d)
      for (std::int64_t t = 0; t < count; ++t)
        sums[c * dim + d] += weights[c * stride + t] * values[t * value_stride + d];
}

}  // namespace attest
