// The session on a GPU: inputs, methods, and the machine that they ran on.
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "analysis/cuda/cuda_bandwidth.h"
#include "analysis/decode_bench/decode_method_cuda.h"
#include "analysis/decode_bench/gpu_clocks.h"
#include "analysis/decode_bench/graph_timing_cuda.h"
#include "analysis/statistics/quantile.h"
#include "dumps/base/error.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

constexpr int kMinCalls = 16;  ///< in a graph

/// Makes the device current before anything else of the session is made.
struct CurrentDevice {
  explicit CurrentDevice(int device) { ATTEST_CUDA(cudaSetDevice(device)); }
};

std::string pci_bus_id(int device) {
  std::array<char, 32> id{};
  ATTEST_CUDA(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device));
  return id.data();
}

std::string cuda_version_text() {
  int version = 0;
  ATTEST_CUDA(cudaRuntimeGetVersion(&version));
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

class CudaKernelSession final : public KernelSession {
 public:
  CudaKernelSession(const Device& device, const KernelTimingOptions& options)
      : current_(device.first_gpu()),
        device_(device.first_gpu()),
        options_(options),
        bandwidth_(measure_cuda_bandwidth(device.first_gpu()).device_copy),
        budget_(device.memory),
        monitor_(pci_bus_id(device.first_gpu())) {}

  KernelMachine machine() const override {
    cudaDeviceProp properties{};
    ATTEST_CUDA(cudaGetDeviceProperties(&properties, device_));
    KernelMachine machine;
    machine.gpu = properties.name;
    machine.multiprocessors = properties.multiProcessorCount;
    machine.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
    machine.driver = monitor_.driver();
    machine.cuda_runtime = cuda_version_text();
    machine.sm_clock_mhz = quantile(sm_clocks_, 0.5);
    machine.memory_clock_mhz = quantile(memory_clocks_, 0.5);
    machine.copy_bytes_per_second = bandwidth_;
    return machine;
  }

  void generate(const KernelInputs& what, std::uint64_t seed) override {
    prepare(what, [&] { return generated_inputs(what, seed, stream_); });
  }
  void load(const KernelInputs& what, const AttentionLayer& layer) override {
    prepare(what, [&] { return inputs_of_layer(what, layer, stream_); });
  }

  KernelResult measure(const KernelSpec& spec) override {
    try {
      return check_and_time(spec);
    } catch (const InputError& refused) {  // a shape or an option that the kernel does not take
      throw NotMeasurable(refused.what());
    }
  }

 private:
  template <class Make>
  void prepare(const KernelInputs& what, Make&& make) {
    copies_.reset();  // refer to the inputs
    reference_.reset();
    inputs_.reset();
    budget_.require(decode_input_bytes(what) + ReferenceDecode::bytes(what), "the inputs and their reference scores");
    inputs_ = std::make_unique<DecodeInputs>(make());
    stream_.synchronize();
    reference_ = std::make_unique<ReferenceDecode>(*inputs_, stream_);
    copies_ = std::make_unique<InputCopies>(*inputs_, budget_, stream_);
  }

  KernelResult check_and_time(const KernelSpec& spec) {
    const DecodeContext context{.inputs = *inputs_,
                                .reference = *reference_,
                                .copies = *copies_,
                                .stream = stream_,
                                .device = device_,
                                .sub_block = options_.sub_block};
    const std::unique_ptr<DecodeMethod> method = make_decode_method(spec, context);
    KernelResult result = method->check();
    const int copies = method->copies();
    GraphTimingOptions timing;
    timing.calls = copies * ((kMinCalls + copies - 1) / copies);
    timing.repeats = options_.repeats;
    timing.observe = [this] { note_clocks(); };
    result.microseconds =
        time_in_graph(stream_, timing, [&](int call, cudaStream_t stream) { method->enqueue(call % copies, stream); });
    result.median_microseconds = quantile(result.microseconds, 0.5);
    result.floor_microseconds = 1e6 * result.bytes / bandwidth_;
    return result;
  }

  void note_clocks() {
    const GpuClocks clocks = monitor_.clocks();
    if (!std::isnan(clocks.sm_mhz)) sm_clocks_.push_back(clocks.sm_mhz);
    if (!std::isnan(clocks.memory_mhz)) memory_clocks_.push_back(clocks.memory_mhz);
  }

  CurrentDevice current_;
  int device_ = 0;
  KernelTimingOptions options_;
  CudaStream stream_;
  double bandwidth_ = 0;
  DeviceMemoryBudget budget_;
  GpuMonitor monitor_;
  std::vector<double> sm_clocks_, memory_clocks_;
  std::unique_ptr<DecodeInputs> inputs_;
  std::unique_ptr<ReferenceDecode> reference_;
  std::unique_ptr<InputCopies> copies_;
};

}  // namespace

std::unique_ptr<KernelSession> make_cuda_kernel_session(const Device& device, const KernelTimingOptions& options) {
  return std::make_unique<CudaKernelSession>(device, options);
}

}  // namespace attest
