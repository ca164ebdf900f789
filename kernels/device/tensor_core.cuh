// Warp-wide products of 16-bit numbers on tensor cores with float32 sums: D[16, 8] += A[16, 16] B[16, 8].
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace attest {

/// Loads four 8x8 matrices from shared memory. Lane l passes the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(std::uint32_t (&m)[4], const std::uint16_t* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}

__device__ inline void load_matrices_transposed(std::uint32_t (&m)[4], const std::uint16_t* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}

/// The A fragment of mma: 16 rows x 16 channels, row-major, rows `pitch` elements apart.
__device__ inline void load_a(std::uint32_t (&a)[4], const std::uint16_t* tile, int pitch, int lane) {
  load_matrices(a, tile + (lane % 16) * pitch + (lane / 16) * 8);
}

/// B of 16 columns (two n = 8 fragments, b[0..2) and b[2..4)), stored as [n][k], rows `pitch` elements apart.
__device__ inline void load_b_columns(std::uint32_t (&b)[4], const std::uint16_t* tile, int pitch, int lane) {
  load_matrices(b, tile + (lane % 8 + lane / 16 * 8) * pitch + (lane / 8 % 2) * 8);
}

/// The same for B stored as [k][n], rows `pitch` elements apart.
__device__ inline void load_b_rows(std::uint32_t (&b)[4], const std::uint16_t* tile, int pitch, int lane) {
  load_matrices_transposed(b, tile + (lane % 16) * pitch + (lane / 16) * 8);
}

/// D += A B of elements T (__half or __nv_bfloat16). In lane l, d[0..2) is row l / 4, columns 2 (l % 4) + {0, 1};
/// d[2..4) is row l / 4 + 8, same columns.
template <class T = __nv_bfloat16>
__device__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace attest
