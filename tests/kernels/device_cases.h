// Cases that exercise separate code paths of device kernels, in addition to those of tests/cases.h.
#pragma once

#include "tests/cases.h"

namespace attest::test {

/// Row counts at and next to multiples of 16 (tile) and 64 (batch); lengths around multiples of 128 tokens (tile);
/// channel counts that are multiples of neither 64 nor 8 (channels read at once).
inline const std::vector<Case>& device_cases() {
  constexpr auto f16 = ElementType::float16, bf16 = ElementType::bfloat16, f32 = ElementType::float32;
  static const std::vector<Case> all = {
      {"one_tile_of_rows", 2, 4, 64, 64, bf16, {14, 15, 16, 257}},
      {"a_row_more",
       1,
       1,
       128,
       128,
       f16,
       {0, 14, 15, 16, 63, 126, 127, 128, 129, 130, 200, 254, 255, 256, 300, 301, 302}},
      {"several_batches", 2, 7, 192, 192, f32, {0, 15, 16, 127, 128, 129, 200, 254, 255, 256, 257, 300}},
      {"full_batches", 1, 4, 128, 192, bf16, {1,   2,   3,   15,  16,  17,  100, 127, 128, 129, 130,
                                              200, 201, 202, 203, 204, 205, 206, 207, 208, 209, 210,
                                              211, 212, 254, 255, 256, 257, 258, 300, 301, 302}},
      {"odd_f16", 2, 4, 100, 100, f16, {16, 99, 255}},
      {"odd_f32", 1, 7, 77, 51, f32, {128, 199, 270}},
      {"odd_bf16", 2, 1, 70, 90, bf16, {127, 254, 257}},
      {"few_channels", 2, 2, 7, 5, bf16, {0, 15, 130}},
      {"many_windows", 2, 4, 72, 130, bf16, {40, 55, 99, 100, 101, 180, 229, 230, 231, 299}, Pattern::peaked, 0, 100},
      {"windows_of_batches",
       1,
       7,
       64,
       64,
       f16,
       {5, 9, 20, 63, 100, 126, 127, 128, 129, 130, 131, 140, 200},
       Pattern::peaked,
       30,
       131},
      {"wide_f32", 1, 4, 576, 264, f32, {31, 127, 128, 140, 150}},
      {"long_bf16", 1, 4, 128, 128, bf16, {4094, 4095, 4096}},
      {"long_f32", 2, 1, 64, 64, f32, {4094, 4095, 4096}},
  };
  return all;
}

/// The cases of tests/cases.h and device_cases().
inline std::vector<Case> all_device_cases() {
  std::vector<Case> all = cases();
  all.insert(all.end(), device_cases().begin(), device_cases().end());
  return all;
}

}  // namespace attest::test
