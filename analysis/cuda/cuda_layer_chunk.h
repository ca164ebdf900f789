// The steps that the study of a layer and attention through one selector share, for a chunk of rows on the device:
// exact scores and the check of a selection. Everything is enqueued; nothing waits for the device.
#pragma once

#include <span>
#include <vector>

#include "analysis/cuda/cuda_layer_plan.h"
#include "analysis/cuda/cuda_overflow.h"
#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/uploads.h"
#include "kernels/selectors/cuda_chunk.h"

namespace attest {

/// The parts of a layer that are on the device: q of all query heads, k and v of a range of KV heads.
struct DeviceInputs {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  KvHeadRange heads;
  const float *key_amax = nullptr, *value_amax = nullptr;  ///< of the whole layer, see CudaChunk
};

/// The chunk of these rows with its tables on the device, without scores. `tables` must outlive it.
CudaChunk layer_chunk(const AttentionLayer& layer, const DeviceInputs& inputs, const RowTables& tables,
                      DeviceArena& arena, Uploads& uploads, cudaStream_t stream);

/// Fills amax [2, KV heads] with the largest magnitudes of the keys and of the values of a layer that is on the device
/// as a whole.
void cuda_layer_amax(const AttentionLayer& layer, const DeviceInputs& inputs, float* amax, cudaStream_t stream);

/// Sets chunk.exact and, of short rows, chunk.exact_low, which only metrics ask for.
void cuda_exact_scores(CudaChunk& chunk, bool with_low = true);

/// One ascending grid per query of the layer, without the shift of a KV head.
std::vector<AscendingGrid> layer_grids(const AttentionLayer& layer, const Selector& selector,
                                       std::span<const Setting> grid);

/// CudaChunk::setting_shift of these groups; empty if the selector has no settings_file.
std::vector<double> setting_shifts(const Selector& selector, int layer, std::span<const QueryGroup> groups);

/// Notes estimates and read scores that are too large to be studied. `index` is the selector's in the study.
void cuda_check_selection(const CudaChunk& chunk, const Selector& selector, const CudaSelection& selection,
                          std::size_t index, OverflowKey* first);

}  // namespace attest
