// attend() of one query per sequence that keeps every key: one pass over keys and values, without the scores in memory.
#pragma once

#include "analysis/torch_ops/attend_cuda.h"
#include "kernels/device/device_arena.h"
#include "kernels/device/uploads.h"

namespace attest {

/// Whether cuda_attend_dense() can answer the call: every KV head keeps all, and there is one query, a 16-bit type, 64
/// or 128 channels, at most 16 query heads per KV head, no soft-cap.
bool is_dense_step(const CudaAttendCall& call);

/// Computes the call's results, and waits for the stream. Returns false if a score or an output is too large: the
/// results are then of no use, and what was too large is not known. `flag`: an int in page-locked memory.
bool cuda_attend_dense(const CudaAttendCall& call, DeviceArena& arena, Uploads& uploads, int* flag);

}  // namespace attest
