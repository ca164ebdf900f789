// The scales of a layer's keys or values on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/uploads.h"
#include "kernels/kv_formats/kv_scale.h"

namespace attest {

/// KvScale::of() the KV heads [first, first + count) of a layer with `layer_heads` of them. amax [layer_heads] on the
/// device: largest magnitudes of the layer; null unless scale.needs_amax(). Returns [count].
const float* cuda_kv_scales(const KvScale& scale, int layer, int first, int count, const float* amax, int layer_heads,
                            DeviceArena& arena, Uploads& uploads, cudaStream_t stream);

}  // namespace attest
