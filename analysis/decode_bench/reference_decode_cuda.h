// Attention of a decode step in double precision, written as plainly as possible: what the decode kernels are checked
// against. It quantises the keys anew from the 16-bit ones and shares no code with the kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "analysis/decode_bench/decode_inputs_cuda.h"

namespace attest {

struct ReferenceOutput {
  std::vector<double> out;  ///< [rows, Dv]
  std::vector<double> lse;  ///< [rows]
};

/// Which sub-blocks of the full blocks attention reads: [pairs, sub_blocks], 1: kept. The tail is always read.
struct KeptBlocks {
  std::vector<std::uint8_t> kept;  ///< empty: all
  int sub_block = 128;
};

class ReferenceDecode {
 public:
  /// The inputs must outlive it.
  ReferenceDecode(const DecodeInputs& inputs, cudaStream_t stream);

  /// Device memory that it takes.
  static std::int64_t bytes(const KernelInputs& what);

  /// Exact attention over all keys.
  const ReferenceOutput& exact();

  /// Largest scores of the sub-blocks of full blocks, [rows, sub_blocks], from thumbnails of `bits` bits, 16: from the
  /// keys themselves.
  std::vector<double> maxima(int bits, int sub_block);

  /// Softmax mass of the sub-blocks of full blocks, [rows, sub_blocks]: their share of all full blocks.
  std::vector<double> masses(int sub_block);

  /// Attention over what was kept: of full blocks keys from thumbnail and e4m3 residual (16: the keys themselves).
  ReferenceOutput attend(int bits, const KeptBlocks& kept);

 private:
  void score(int bits);
  std::vector<double> of_sub_blocks(int sub_block, const double* offsets);

  const DecodeInputs& inputs_;
  cudaStream_t stream_;
  DeviceBuffer estimates_;  ///< [rows, length] s^ of full blocks
  DeviceBuffer refined_;    ///< [rows, length] s'; exact in the tail
  DeviceBuffer partial_;    ///< [rows, kSplits, Dv + 1]
  int scored_bits_ = 0;     ///< of the scores in memory; 0: none
  ReferenceOutput exact_;
};

}  // namespace attest
