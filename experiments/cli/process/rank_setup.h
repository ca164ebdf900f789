// The part of the machine that a rank takes: its GPU and its threads.
#pragma once

#include <string>

#include "analysis/layer/device.h"
#include "analysis/run/launcher.h"

namespace attest {

/// The device of a rank for --device as typed: `auto` and `cuda` give it the GPU of its local rank, and several ranks
/// of one machine share a GPU and its memory if there are not enough. Throws UsageError as resolve_device() does, and
/// if several ranks of a machine would all take several GPUs.
Device rank_device(const std::string& typed, const DeviceMemoryLimit& memory, const Launch& ranks,
                   const VisibleGpus& visible);

/// The rank's share of the processors. `available`: those of this process; `online`: those of the machine. A launcher
/// that binds its ranks has divided them already.
int rank_threads(const Launch& ranks, int available, int online);

/// "rank 3 of 8 (torchrun), local rank 3 of 4 on 'node7'".
std::string rank_text(const Launch& ranks);

}  // namespace attest
