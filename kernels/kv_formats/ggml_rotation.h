// llama.cpp's rotation of rows before it quantises them: Walsh-Hadamard blocks of 64 channels for values, of the
// largest 64 2^i that divides C for keys, where C is a multiple of 64.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/kv_formats/kv_format.h"

namespace attest {

struct GgmlRotation {
  int channels = 0;   ///< of a Hadamard block; 0: rows are not rotated
  double factor = 1;  ///< 1/sqrt(channels)

  explicit GgmlRotation(const KvRows& rows) {
    if (!rows.rotate || rows.channels % 64 != 0) return;
    channels = rows.keys ? 64 << std::countr_zero(static_cast<unsigned>(rows.channels) / 64) : 64;
    factor = 1 / std::sqrt(static_cast<double>(channels));
  }
};

}  // namespace attest
