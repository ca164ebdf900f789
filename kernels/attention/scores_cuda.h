// Exact attention scores of a chunk's rows on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"

namespace attest {

/// scores[r][j] = score of q_r.k_j for visible j, and 0 for other j up to the end of the last tile. Rows of both
/// matrices are rows.stride apart. If `low` is not null, scores + low approximates the score in double
/// (low_scores.cuh).
void cuda_scores(const DeviceRows& rows, const DeviceKeyValues& kv, const QueryParts& queries,
                 const DeviceMatrix<float>& scores, const DeviceMatrix<float>& low, cudaStream_t stream);

/// The same of float32 keys that were rounded, whose low part, as large as the keys, is `keys_low`.
void cuda_scores_of_rounded(const DeviceRows& rows, const DeviceKeyValues& kv, const float* keys_low,
                            const QueryParts& queries, const DeviceMatrix<float>& scores,
                            const DeviceMatrix<float>& low, cudaStream_t stream);

}  // namespace attest
