// Walsh-Hadamard transform in natural (Sylvester) order, in place: butterflies of stride 1, 2, 4, ...
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/quantize/vector_steps.h"

namespace attest {

namespace hadamard_detail {

template <class T>
inline constexpr int kLanes = static_cast<int>(64 / sizeof(T));
inline constexpr int kMaxVectors = 16;  // that are held in registers together

template <std::size_t kStride, class T, class Vec, std::size_t... I>
ATTEST_INLINE void within(Vec& v, std::index_sequence<I...>) {
  const Vec sign = {static_cast<T>((I & kStride) == 0 ? 1 : -1)...};
  v = __builtin_shufflevector(v, v, (I ^ kStride)...) + sign * v;
}

/// Butterflies of vectors I and I + kStride. Without loops, so that vectors stay in registers.
template <std::size_t kStride, class Vec, std::size_t kVectors, std::size_t... I>
ATTEST_INLINE void across(Vec (&v)[kVectors], std::index_sequence<I...>) {
  const auto one = [&]<std::size_t kAt>() __attribute__((always_inline)) {
    if constexpr ((kAt & kStride) == 0 && kStride < kVectors) {
      const Vec a = v[kAt], b = v[kAt | kStride];
      v[kAt] = a + b;
      v[kAt | kStride] = a - b;
    }
  };
  (one.template operator()<I>(), ...);
}

/// y = factor H' x of 64 / sizeof(T) * kVectors numbers; y may be x.
template <int kVectors, class T>
ATTEST_INLINE void transform(const T* x, T* y, T factor) {
  typedef T Vec __attribute__((vector_size(64)));
  constexpr int lanes = kLanes<T>;
  constexpr auto kAll = std::make_index_sequence<lanes>();
  Vec v[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    load(x + i * kLanes<T>, v[i]);
    within<1, T>(v[i], kAll);
    within<2, T>(v[i], kAll);
    within<4, T>(v[i], kAll);
    if constexpr (lanes > 8) within<8, T>(v[i], kAll);
  }
  across<1>(v, std::make_index_sequence<kVectors>());
  across<2>(v, std::make_index_sequence<kVectors>());
  across<4>(v, std::make_index_sequence<kVectors>());
  across<8>(v, std::make_index_sequence<kVectors>());
  for (int i = 0; i < kVectors; ++i) store(v[i] * factor, y + i * kLanes<T>);
}

}  // namespace hadamard_detail

/// y [n] = factor H' x, H' unnormalised; n is a power of 2, and y may be x. Each butterfly is (a + b, a - b) of T, and
/// each result is multiplied by the factor, however it is vectorised.
template <class T>
void hadamard(const T* x, T* y, int n, T factor) {
  using namespace hadamard_detail;
  typedef T Vec __attribute__((vector_size(64)));
  constexpr int kL = kLanes<T>;
  if (n == kL) return transform<1>(x, y, factor);
  if (n == 2 * kL) return transform<2>(x, y, factor);
  if (n == 4 * kL) return transform<4>(x, y, factor);
  if (n == 8 * kL) return transform<8>(x, y, factor);
  if (n == 16 * kL) return transform<16>(x, y, factor);
  int stride = 1;
  if (n < kL) {
    std::copy_n(x, n, y);
  } else {
    stride = kMaxVectors * kL;
    for (int begin = 0; begin < n; begin += stride) transform<kMaxVectors>(x + begin, y + begin, T{1});
  }
  for (; stride < n && n < kL; stride *= 2)  // of few channels
    for (int begin = 0; begin < n; begin += 2 * stride)
      for (int i = begin; i < begin + stride; ++i) {
        const T a = y[i], b = y[i + stride];
        y[i] = a + b;
        y[i + stride] = a - b;
      }
  for (; stride < n; stride *= 2)
    for (int begin = 0; begin < n; begin += 2 * stride)
      for (int i = begin; i < begin + stride; i += kL) {
        Vec a, b;
        load(y + i, a);
        load(y + i + stride, b);
        store(a + b, y + i);
        store(a - b, y + i + stride);
      }
  for (int i = 0; i < n; ++i) y[i] *= factor;
}

}  // namespace attest
