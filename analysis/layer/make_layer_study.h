// The study of one layer on whichever device was chosen.
#pragma once

#include <memory>

#include "analysis/layer/device.h"
#include "analysis/layer/layer_study.h"

namespace attest {

/// `threads` is for the CPU. Throws UsageError where the device cannot run the study.
std::unique_ptr<LayerStudy> make_layer_study(const Study& study, const Device& device, int threads);

/// Of `threads`, how many read the next layer while one is studied: all but one where a GPU does the rest.
int reading_threads(const Device& device, int threads);

}  // namespace attest
