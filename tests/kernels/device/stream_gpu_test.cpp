// Streams and events: a stream waits for an event of another stream.
#include <gtest/gtest.h>

#include "kernels/device/stream.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

class CudaEventTest : public OnGpu {};

TEST_F(CudaEventTest, HoldsAnotherStream) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  Gpu gpu;
  const CudaStream other;
  const CudaEvent event;
  auto* memory = gpu.arena.take<unsigned char>(kBytes);
  auto* copy = gpu.arena.take<unsigned char>(kBytes);
  event.make_wait(other);  // nothing recorded yet: does not wait
  for (int i = 0; i < 50; ++i) ATTEST_CUDA(cudaMemsetAsync(memory, i, kBytes, gpu.stream));
  event.record(gpu.stream);
  event.make_wait(other);
  ATTEST_CUDA(cudaMemcpyAsync(copy, memory, kBytes, cudaMemcpyDeviceToDevice, other));
  other.synchronize();
  EXPECT_TRUE(gpu.download(copy, kBytes) == std::vector<unsigned char>(kBytes, 49));
}

TEST_F(CudaEventTest, IsDoneAfterItsStreamsWork) {
  Gpu gpu;
  const CudaEvent event(CudaEvent::Timing::on);
  event.record(gpu.stream);
  event.synchronize();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

}  // namespace
}  // namespace attest::test
