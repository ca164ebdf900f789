// Makes the layer study for the chosen device, CPU or GPU.
#pragma once

#include <memory>

#include "analysis/layer/device.h"
#include "analysis/layer/layer_study.h"

namespace attest {

/// `threads` is used on the CPU only. Throws UsageError if the device cannot run the study.
std::unique_ptr<LayerStudy> make_layer_study(const Study& study, const Device& device, int threads);

/// Number of the `threads` that read the next layer while one is studied. GPU: all but one, at most 16; CPU: at most 4.
int reading_threads(const Device& device, int threads);

}  // namespace attest
