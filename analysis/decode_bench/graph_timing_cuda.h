// Time of a kernel call in a CUDA graph: many calls on copies of the inputs in turn, so that none finds its inputs in
// the level-2 cache and launching costs what it costs inside a model's graph.
#pragma once

#include <functional>
#include <vector>

#include "kernels/device/stream.h"

namespace attest {

/// Enqueues call number `call` on a stream that is being captured.
using EnqueueCall = std::function<void(int call, cudaStream_t stream)>;

struct GraphTimingOptions {
  int calls = 16;    ///< in the graph
  int repeats = 25;  ///< timed replays, after some that warm the GPU up
  /// Called while the timed replays run.
  std::function<void()> observe = [] {};
};

/// Microseconds per call, one value per replay. Throws what `enqueue` throws, and Error if it captured nothing.
std::vector<double> time_in_graph(const CudaStream& stream, const GraphTimingOptions& options,
                                  const EnqueueCall& enqueue);

/// How many copies of inputs of which a call reads `bytes` are needed so that they are out of the cache when their turn
/// comes again: together more than twice its size.
int copies_beyond_cache(double bytes);

}  // namespace attest
