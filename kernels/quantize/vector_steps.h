// Vectors of the CPU that quantisers compute in, 16 float32 or 8 double at a time, and steps on them. Results are
// those of the same operations one by one. Vectors are passed by reference: how they are returned depends on the
// processor.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/base/vec8.h"

namespace attest {

typedef float Vec16f __attribute__((vector_size(64)));
typedef std::int32_t Vec16i __attribute__((vector_size(64)));
typedef std::uint32_t Vec16u __attribute__((vector_size(64)));

#define ATTEST_INLINE [[gnu::always_inline]] inline

template <class Vec, class T>
ATTEST_INLINE void load(const T* from, Vec& v) {
  std::memcpy(&v, from, sizeof v);
}
template <class Vec, class T>
ATTEST_INLINE void store(const Vec& v, T* to) {
  std::memcpy(to, &v, sizeof v);
}

/// 16 numbers in double. They are made in loops over memory, from where compilers convert a whole vector at once.
struct Wide {
  Vec8d low, high;

  template <class T>
  ATTEST_INLINE Wide(const T* from, double scale) {
    alignas(64) double x[16];
    for (int i = 0; i < 16; ++i) x[i] = from[i] * scale;
    load(x, low);
    load(x + 8, high);
  }
};

/// to[0 .. 16) = code scale + shift, in double.
ATTEST_INLINE void store_scaled(const Vec16i& code, double scale, double shift, double* to) {
  alignas(64) std::int32_t codes[16];
  store(code, codes);
  const Wide wide(codes, scale);
  store(wide.low + shift, to);
  store(wide.high + shift, to + 8);
}
ATTEST_INLINE void store_scaled(const Vec16i& code, double scale, double* to) {
  alignas(64) std::int32_t codes[16];
  store(code, codes);
  const Wide wide(codes, scale);
  store(wide.low, to);
  store(wide.high, to + 8);
}

/// Largest (smallest) of the 16.
ATTEST_INLINE float largest_of(Vec16f v) {
  Vec16f w = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  v = v > w ? v : w;
  w = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  v = v > w ? v : w;
  w = __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  v = v > w ? v : w;
  return v[0] > v[1] ? v[0] : v[1];
}
ATTEST_INLINE float smallest_of(const Vec16f& v) { return -largest_of(-v); }

/// largest[i] = the largest of v[i], for eight vectors together: a third of the work that each would take alone.
ATTEST_INLINE void largest_of_each(const Vec16f (&v)[8], float* largest) {
  typedef float Vec8f __attribute__((vector_size(32)));
  Vec16f halves[4], quarters[2];
  for (int i = 0; i < 4; ++i) {
    const Vec16f &a = v[2 * i], &b = v[2 * i + 1];
    const Vec16f low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
                 high = __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    halves[i] = low > high ? low : high;
  }
  for (int i = 0; i < 2; ++i) {
    const Vec16f &a = halves[2 * i], &b = halves[2 * i + 1];
    const Vec16f low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
                 high = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    quarters[i] = low > high ? low : high;
  }
  const Vec16f &a = quarters[0], &b = quarters[1];
  const Vec16f low = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29),
               high = __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
  const Vec16f pairs = low > high ? low : high;
  const Vec8f even = __builtin_shufflevector(pairs, pairs, 0, 2, 4, 6, 8, 10, 12, 14),
              odd = __builtin_shufflevector(pairs, pairs, 1, 3, 5, 7, 9, 11, 13, 15);
  store(even > odd ? even : odd, largest);
}

}  // namespace attest
