// io_ratio: bytes that an ideal kernel of the method reads for one query and KV head, divided by the bytes of a dense
// 16-bit read.
#pragma once

#include <span>

#include "analysis/metrics/rows.h"

namespace attest {

struct CudaSelectorRows;
class CudaCells;

///   io_ratio = (fixed + per_kept_token * (tokens kept by any head of the group - free_tokens)) / (t L)
///
/// t is what dense attention reads of a token: 2 (D + Dv), or 2 D where values are channels of the keys.
/// A kept token is read once for the whole GQA group, so all query heads of a group have the same value. Each
/// selector's file has its formulas of `fixed` and `per_kept_token`.
void io_ratio(const SelectorRow& row, std::span<double> out);

void cuda_io_ratio(const CudaSelectorRows& rows, const CudaCells& cells);

}  // namespace attest
