// Comparison of a decode kernel's results with those of the reference, and settings that keep a given share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/decode_bench/kernel_record.h"
#include "dumps/element_type.h"

namespace attest {

/// "bench: ffd, 2-bit scan, topdelta, fused, 32768 tokens, batch 1": how messages name a measurement.
std::string kernel_name(const KernelSpec& spec, std::int64_t length, int batch);

/// KernelCheck::against
std::string reference_check_text(std::int64_t rows);

/// Outputs and log-sum-exps of all query heads.
struct DecodeOutput {
  std::vector<float> out;  ///< [rows, value_dim]
  std::vector<float> lse;  ///< [rows]; empty: not computed
};

/// Largest differences that rounding explains. Of outputs: the norm of the difference over the norm; kernels round
/// softmax weights and outputs to 16 bits, 2^-11 of float16 and 2^-8 of bfloat16. Of LSEs: nats, in float32.
struct DecodeTolerance {
  double output = 0, lse = 0;
};
constexpr DecodeTolerance decode_tolerance(ElementType type) {
  return {.output = type == ElementType::float16 ? 5e-3 : 2e-2, .lse = 2e-3};
}

/// Fills the errors of `check`. Throws Error, which begins with `what`, if one is above the tolerance or is no number.
void check_output(const std::string& what, const DecodeOutput& found, std::span<const double> out,
                  std::span<const double> lse, const DecodeTolerance& tolerance, KernelCheck& check);

KernelFidelity fidelity_of(const DecodeOutput& found, std::span<const double> out, std::span<const double> lse);

/// How near to a rule's threshold rounding may decide either way: scores in nats, and masses, in float32.
inline constexpr double kMarginTolerance = 2e-3, kMassTolerance = 1e-5;

/// Margins of a rule (block_margins.h).
struct RankedBlocks {
  std::span<const double> margins;  ///< [pairs, sub_blocks]
  std::int64_t pairs = 0, sub_blocks = 0;
  double tolerance = kMarginTolerance;
  int num_kv_heads = 1;  ///< pair p is KV head p % num_kv_heads of sequence p / num_kv_heads
};

/// The flags of the counts[p] sub-blocks of each pair with the lowest margins, ties to the lower index.
std::vector<std::uint8_t> lowest_margins(const RankedBlocks& blocks, std::span<const int> counts);

/// How many sub-blocks of each pair have a margin of at most `delta`.
std::vector<int> counts_within(const RankedBlocks& blocks, double delta);

/// Compares what a kernel kept with `expected`, and fills the block counts of `check`. Throws Error if a difference is
/// more than sub-blocks within the tolerance of `delta` explain (`delta` NaN: if there is a difference).
void check_counts(const std::string& what, const RankedBlocks& blocks, std::span<const int> found,
                  std::span<const int> expected, double delta, KernelCheck& check);

/// The delta, at least 0, at which `count` sub-blocks of all pairs together are kept: halfway between two margins.
/// Infinity if that is all.
double delta_that_keeps(const RankedBlocks& blocks, std::int64_t count);

}  // namespace attest
