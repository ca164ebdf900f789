// The kernels of FFD's scores; they take longer to compile than the rest of the selector.
#include "kernels/attention/score_tiles.cuh"
#include "kernels/selectors/ffd_scores_cuda.cuh"

namespace attest {

void cuda_ffd_scores(const DeviceRows& rows, const QueryParts& queries, const DeviceKeyValues& kv,
                     const FfdKeys<false>& form, const ScoreTargets& targets, cudaStream_t stream) {
  score_rows(rows, queries, kv, form, targets, stream);
}

void cuda_ffd_scores(const DeviceRows& rows, const QueryParts& queries, const DeviceKeyValues& kv,
                     const FfdKeys<true>& form, const ScoreTargets& targets, cudaStream_t stream) {
  score_rows(rows, queries, kv, form, targets, stream);
}

}  // namespace attest
