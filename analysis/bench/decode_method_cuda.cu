// Makes methods by name, and what they share.
#include <vector>

#include "analysis/bench/decode_method_cuda.h"
#include "kernels/device/cuda_check.h"

namespace attest {

std::unique_ptr<DecodeMethod> make_decode_method(const KernelSpec& spec, const DecodeContext& context) {
  if (spec.method == "ffd" && scan_bits(spec) < 16) return make_ffd_method(spec, context);
  if (spec.method == "sdpa_flash" || spec.method == "sdpa_cudnn") return make_sdpa_method(spec, context);
  throw NotMeasurable("this version of attest has no such kernel");
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

DecodeOutput output_on_host(const DecodeContext& context, const DeviceBuffer& out, const DeviceBuffer& lse) {
  const DecodeInputs& inputs = context.inputs;
  const std::int64_t count = inputs.rows() * inputs.what.shape.value_dim;
  const auto raw = on_host<std::uint16_t>(out, count, context.stream);
  DecodeOutput output{.out = std::vector<float>(raw.size()), .lse = on_host<float>(lse, inputs.rows(), context.stream)};
  convert_to_float(inputs.what.element_type, reinterpret_cast<const std::byte*>(raw.data()), raw.size(),
                   output.out.data());
  return output;
}

}  // namespace attest
