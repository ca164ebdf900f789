// io_ratio: bytes that an ideal kernel of the method reads for a KV head and query over those of a dense 16-bit read.
#pragma once

#include <span>

#include "analysis/metrics/rows.h"

namespace attest {

struct CudaSelectorRows;
class CudaCells;

/// (fixed + per_kept_token * (tokens kept by any head of the group - free_tokens)) / (2 (D + Dv) L): each kept token is
/// read once for the group, so all heads of a group have the same value. The formulas of `fixed` and `per_kept_token`
/// stand in the selectors' files.
void io_ratio(const SelectorRow& row, std::span<double> out);

void cuda_io_ratio(const CudaSelectorRows& rows, const CudaCells& cells);

}  // namespace attest
