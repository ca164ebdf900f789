// Walsh-Hadamard transform in natural (Sylvester) order, in place: butterflies of stride 1, 2, 4, ...
#pragma once

#include <cstring>

namespace attest {

/// x [n] = H' x, unnormalised; n is a power of 2. Each butterfly is (a + b, a - b) of T, however it is vectorised.
template <class T>
void hadamard(T* x, int n) {
  typedef T Vec8 __attribute__((vector_size(8 * sizeof(T))));
  int stride = 1;
  if (n >= 8) {
    const Vec8 sign1 = {1, -1, 1, -1, 1, -1, 1, -1}, sign2 = {1, 1, -1, -1, 1, 1, -1, -1},
               sign4 = {1, 1, 1, 1, -1, -1, -1, -1};
    for (int i = 0; i < n; i += 8) {
      Vec8 v;
      std::memcpy(&v, x + i, sizeof v);
      v = __builtin_shufflevector(v, v, 0, 0, 2, 2, 4, 4, 6, 6) +
          sign1 * __builtin_shufflevector(v, v, 1, 1, 3, 3, 5, 5, 7, 7);
      v = __builtin_shufflevector(v, v, 0, 1, 0, 1, 4, 5, 4, 5) +
          sign2 * __builtin_shufflevector(v, v, 2, 3, 2, 3, 6, 7, 6, 7);
      v = __builtin_shufflevector(v, v, 0, 1, 2, 3, 0, 1, 2, 3) +
          sign4 * __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7);
      std::memcpy(x + i, &v, sizeof v);
    }
    stride = 8;
  }
  for (; stride < n && stride < 8; stride *= 2)  // of less than 8 channels
    for (int begin = 0; begin < n; begin += 2 * stride)
      for (int i = begin; i < begin + stride; ++i) {
        const T a = x[i], b = x[i + stride];
        x[i] = a + b;
        x[i + stride] = a - b;
      }
  for (; stride < n; stride *= 2)
    for (int begin = 0; begin < n; begin += 2 * stride)
      for (int i = begin; i < begin + stride; i += 8) {
        Vec8 a, b;
        std::memcpy(&a, x + i, sizeof a);
        std::memcpy(&b, x + i + stride, sizeof b);
        const Vec8 sum = a + b, difference = a - b;
        std::memcpy(x + i, &sum, sizeof sum);
        std::memcpy(x + i + stride, &difference, sizeof difference);
      }
}

}  // namespace attest
