// Scores of FFD's thumbnails, and of thumbnails plus residuals: score_rows() with their form.
#pragma once

#include "kernels/attention/score_targets.cuh"
#include "kernels/quantize/ffd_thumbnail_cuda.cuh"

namespace attest {

void cuda_ffd_scores(const DeviceRows& rows, const QueryParts& queries, const DeviceKeyValues& kv,
                     const FfdKeys<false>& form, const ScoreTargets& targets, cudaStream_t stream);
void cuda_ffd_scores(const DeviceRows& rows, const QueryParts& queries, const DeviceKeyValues& kv,
                     const FfdKeys<true>& form, const ScoreTargets& targets, cudaStream_t stream);

}  // namespace attest
