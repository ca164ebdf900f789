// Makes the layer study for the chosen device, CPU or GPU.
#pragma once

#include <memory>
#include <vector>

#include "analysis/layer/device.h"
#include "analysis/layer/layer_study.h"

namespace attest {

/// For the CPU, or the GPU at `place` among those of the device, which takes its share of the `threads`. Throws as
/// make_cuda_layer_study() does.
std::unique_ptr<LayerStudy> make_layer_study(const Study& study, const Device& device, int threads,
                                             std::size_t place = 0);

/// Number of the `threads` that read the next layer of one of the device's layer studies. GPU: its share less one, from
/// 1 to 16; CPU: at most 4.
int reading_threads(const Device& device, int threads);

/// Number of the `threads` that store the results of one of the device's layer studies: a quarter of a GPU's share, at
/// most 4; CPU: one.
int storing_threads(const Device& device, int threads);

}  // namespace attest
