// Owning wrappers of CUDA streams and events.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/cuda_check.h"

namespace attest {

class CudaStream {
 public:
  CudaStream() { ATTEST_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~CudaStream() { ATTEST_CUDA_QUIET(cudaStreamDestroy(stream_)); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  operator cudaStream_t() const { return stream_; }
  void synchronize() const { ATTEST_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Marks a position in a stream.
class CudaEvent {
 public:
  enum class Timing : bool { off, on };
  explicit CudaEvent(Timing timing = Timing::off) {
    ATTEST_CUDA(cudaEventCreateWithFlags(&event_, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming));
  }
  ~CudaEvent() { ATTEST_CUDA_QUIET(cudaEventDestroy(event_)); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  operator cudaEvent_t() const { return event_; }
  void record(cudaStream_t stream) const { ATTEST_CUDA(cudaEventRecord(event_, stream)); }
  /// Makes `stream` wait for the work before the last record(); no wait if record() was never called.
  void make_wait(cudaStream_t stream) const { ATTEST_CUDA(cudaStreamWaitEvent(stream, event_)); }
  void synchronize() const { ATTEST_CUDA(cudaEventSynchronize(event_)); }
  /// Seconds since another event. Both have a time and are completed.
  double seconds_since(const CudaEvent& begin) const {
    float milliseconds = 0;
    ATTEST_CUDA(cudaEventElapsedTime(&milliseconds, begin, event_));
    return milliseconds / 1000.0;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace attest
