// Exact attention scores on the device: score_rows() with exact keys.
#include "kernels/attention/score_tiles.cuh"
#include "kernels/attention/scores_cuda.h"

namespace attest {

void cuda_scores(const DeviceRows& rows, const DeviceKeyValues& kv, const QueryParts& queries,
                 const DeviceMatrix<float>& scores, const DeviceMatrix<float>& low, cudaStream_t stream) {
  score_rows(rows, queries, kv, ExactKeys{parts_of(kv.type)}, {.scores = scores.data, .low = low.data}, stream);
}

void cuda_scores_of_rounded(const DeviceRows& rows, const DeviceKeyValues& kv, const float* keys_low,
                            const QueryParts& queries, const DeviceMatrix<float>& scores,
                            const DeviceMatrix<float>& low, cudaStream_t stream) {
  cuda_scores(rows, kv, queries, scores, {}, stream);
  if (low)
    low_scores(rows, queries, kv, KeysWithLow{keys_low, kv.head_dim}, {.scores = scores.data, .low = low.data}, stream);
}

}  // namespace attest
