// Captures calls in a graph, and times its replays with events.
#include "analysis/decode_bench/graph_timing_cuda.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

#include "dumps/base/error.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

constexpr auto kWarmUp = std::chrono::milliseconds(30);  // clocks rise within this time
constexpr int kMaxCopies = 1024;

/// The graph of what `enqueue` puts on the stream, ready for launches.
class CallGraph {
 public:
  CallGraph(cudaStream_t stream, int calls, const EnqueueCall& enqueue) {
    // Relaxed: LibTorch may allocate while its call is captured.
    ATTEST_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    try {
      for (int call = 0; call < calls; ++call) enqueue(call, stream);
    } catch (...) {
      end_capture_quietly(stream);
      throw;
    }
    ATTEST_CUDA(cudaStreamEndCapture(stream, &graph_));
    std::size_t nodes = 0;
    const cudaError_t counted = cudaGraphGetNodes(graph_, nullptr, &nodes);
    const cudaError_t made = counted == cudaSuccess && nodes > 0 ? cudaGraphInstantiate(&ready_, graph_, 0) : counted;
    if (made == cudaSuccess && nodes > 0) return;
    release();
    ATTEST_CUDA(made);
    throw Error("bench: the calls put nothing into their graph");
  }
  ~CallGraph() { release(); }
  CallGraph(const CallGraph&) = delete;
  CallGraph& operator=(const CallGraph&) = delete;

  void launch(cudaStream_t stream) const { ATTEST_CUDA(cudaGraphLaunch(ready_, stream)); }

 private:
  static void end_capture_quietly(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    ATTEST_CUDA_QUIET(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) ATTEST_CUDA_QUIET(cudaGraphDestroy(graph));
  }
  void release() {
    if (ready_ != nullptr) ATTEST_CUDA_QUIET(cudaGraphExecDestroy(ready_));
    if (graph_ != nullptr) ATTEST_CUDA_QUIET(cudaGraphDestroy(graph_));
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
};

void warm_up(const CallGraph& graph, const CudaStream& stream) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 3; ++i) graph.launch(stream);
    stream.synchronize();
  } while (std::chrono::steady_clock::now() - start < kWarmUp);
}

}  // namespace

std::vector<double> time_in_graph(const CudaStream& stream, const GraphTimingOptions& options,
                                  const EnqueueCall& enqueue) {
  const CallGraph graph(stream, options.calls, enqueue);
  warm_up(graph, stream);
  std::deque<CudaEvent> begins, ends;
  for (int i = 0; i < options.repeats; ++i) {
    begins.emplace_back(CudaEvent::Timing::on).record(stream);
    graph.launch(stream);
    ends.emplace_back(CudaEvent::Timing::on).record(stream);
  }
  options.observe();
  stream.synchronize();
  std::vector<double> microseconds;
  for (int i = 0; i < options.repeats; ++i) {
    const auto at = static_cast<std::size_t>(i);
    microseconds.push_back(1e6 * ends[at].seconds_since(begins[at]) / options.calls);
  }
  return microseconds;
}

int copies_beyond_cache(double bytes) {
  const double cache = device_attribute(cudaDevAttrL2CacheSize);
  const double copies = std::floor(2 * cache / std::max(bytes, 1.0)) + 1;
  return static_cast<int>(std::min<double>(copies, kMaxCopies));
}

}  // namespace attest
