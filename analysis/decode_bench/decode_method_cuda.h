// A decode method on given inputs: what it takes to check it once and to time its calls.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "analysis/decode_bench/block_margins.h"
#include "analysis/decode_bench/decode_check.h"
#include "analysis/decode_bench/decode_inputs_cuda.h"
#include "analysis/decode_bench/input_copies_cuda.h"
#include "analysis/decode_bench/kernel_session.h"
#include "analysis/decode_bench/reference_decode_cuda.h"
#include "kernels/device/stream.h"

namespace attest {

/// What the methods of one layer's inputs share. Outlives them.
struct DecodeContext {
  const DecodeInputs& inputs;
  ReferenceDecode& reference;
  InputCopies& copies;
  const CudaStream& stream;
  int device = 0;
  int sub_block = 128;
};

class DecodeMethod {
 public:
  virtual ~DecodeMethod() = default;

  /// Runs the method once, compares its results with those of the reference, and fills all but the times.
  virtual KernelResult check() = 0;

  /// One call on a copy of the inputs.
  virtual void enqueue(int copy, cudaStream_t stream) = 0;
  virtual int copies() const = 0;
};

/// Throws NotMeasurable for a method that this build, or this shape, does not have.
std::unique_ptr<DecodeMethod> make_decode_method(const KernelSpec& spec, const DecodeContext& context);

using MakeDecodeMethod = std::unique_ptr<DecodeMethod>(const KernelSpec&, const DecodeContext&);
MakeDecodeMethod make_ffd_method, make_exact_ffd_method, make_sdpa_method, make_skip_softmax_method,
    make_selection_method, make_kivi_method;

/// Maxima, or masses, of context.sub_block tokens each.
HeadMaxima head_maxima(const DecodeContext& context, const std::vector<double>& values);

/// kernel_name() on the inputs.
std::string name_of(const KernelSpec& spec, const DecodeContext& context);

/// Bits of a thumbnail's code, or of a key; 0: the method has no scan.
int scan_bits(const KernelSpec& spec);

/// Bytes of a dense read of all keys and values.
double dense_bytes(const KernelInputs& what);

/// An array on the device, copied from the host.
DeviceBuffer on_device(const void* values, std::size_t bytes, cudaStream_t stream);

/// An array of the device on the host. Waits.
template <class T>
std::vector<T> on_host(const DeviceBuffer& from, std::int64_t count, cudaStream_t stream) {
  std::vector<T> values(static_cast<std::size_t>(count));
  ATTEST_CUDA(cudaMemcpyAsync(values.data(), from.data(), values.size() * sizeof(T), cudaMemcpyDeviceToHost, stream));
  ATTEST_CUDA(cudaStreamSynchronize(stream));
  return values;
}

}  // namespace attest
