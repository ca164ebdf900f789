// Quest's upper bounds on the scores within every page, on the device: the counterpart of page_scores.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"

namespace attest {

/// out[r][i] = score of sum_d max(q_d * max_d, q_d * min_d) over page i of `page` tokens, for the ceil(L / page) pages
/// that row r sees. If the last page is partial, only its visible tokens count.
void cuda_page_scores(const DeviceRows& rows, const DeviceKeyValues& kv, const QueryParts& queries, int page,
                      const DeviceMatrix<float>& out, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
