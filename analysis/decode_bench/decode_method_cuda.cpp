// Makes methods by name, and what they share.
#include "analysis/decode_bench/decode_method_cuda.h"

#include <vector>

#include "kernels/device/cuda_check.h"

namespace attest {

std::unique_ptr<DecodeMethod> make_decode_method(const KernelSpec& spec, const DecodeContext& context) {
  if (spec.method == "ffd" && spec.scan == "16-bit") return make_exact_ffd_method(spec, context);
  if (spec.method == "ffd") return make_ffd_method(spec, context);
  if (spec.method == "sdpa_flash" || spec.method == "sdpa_cudnn") return make_sdpa_method(spec, context);
  if (spec.method == "skip_softmax") return make_skip_softmax_method(spec, context);
  if (spec.method == "kivi_scan") return make_kivi_method(spec, context);
  return make_selection_method(spec, context);
}

std::string name_of(const KernelSpec& spec, const DecodeContext& context) {
  return kernel_name(spec, context.inputs.what.length, context.inputs.what.batch);
}

HeadMaxima head_maxima(const DecodeContext& context, const std::vector<double>& values) {
  return {.maxima = values,
          .pairs = context.inputs.pairs(),
          .sub_blocks = static_cast<std::int64_t>(values.size()) / context.inputs.rows(),
          .group = context.inputs.what.shape.group(),
          .per_block = kFfdBlock / context.sub_block};
}

int scan_bits(const KernelSpec& spec) { return spec.scan.empty() ? 0 : std::stoi(spec.scan); }

double dense_bytes(const KernelInputs& what) {
  const AttentionShape& s = what.shape;
  return 2.0 * static_cast<double>(what.length) * what.batch * s.num_kv_heads * (s.head_dim + s.value_dim);
}

DeviceBuffer on_device(const void* values, std::size_t bytes, cudaStream_t stream) {
  DeviceBuffer buffer(bytes);
  ATTEST_CUDA(cudaMemcpyAsync(buffer.data(), values, bytes, cudaMemcpyHostToDevice, stream));
  ATTEST_CUDA(cudaStreamSynchronize(stream));
  return buffer;
}

}  // namespace attest
