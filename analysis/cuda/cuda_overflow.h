// Finds scores, estimates and outputs that overflow, on the device: the counterpart of analysis/layer/overflow.h.
#pragma once

#include <cstdint>
#include <optional>

#include "analysis/layer/overflow.h"
#include "kernels/attention/level_sums_cuda.h"
#include "kernels/selectors/cuda_chunk.h"

namespace attest {

/// The first overflow of a layer as one integer, which atomicMin() updates: by step, selector, query, query head,
/// token. All bits set: none was found.
using OverflowKey = unsigned long long;
inline constexpr OverflowKey kNoOverflow = ~0ull;
/// What its bits can tell apart: tokens, and cells (query, query head) of a layer.
inline constexpr std::int64_t kMaxOverflowTokens = 1 << 22, kMaxOverflowCells = 1 << 28;

/// The overflow at cell query * num_heads + query head, or nullopt for kNoOverflow.
std::optional<Overflow> overflow_of_key(OverflowKey key, int num_heads);

/// Updates *first with the first token of each row whose value is above kLargestScore, below `lowest`, or NaN. Of
/// `where`, step and selector are used.
void cuda_find_overflow(const CudaChunk& chunk, const RowValues& values, float lowest, const Overflow& where,
                        OverflowKey* first);

/// Updates *first with the rows that have an output that is NaN or infinite.
void cuda_find_overflow(const CudaChunk& chunk, const DeviceOutputs& outputs, const Overflow& where,
                        OverflowKey* first);

}  // namespace attest
