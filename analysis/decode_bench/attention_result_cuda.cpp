// Copies results to the host and compares them.
#include "analysis/decode_bench/attention_result_cuda.h"

#include <vector>

namespace attest {
namespace {

/// On the host.
DecodeOutput output_on_host(const DecodeContext& context, const DeviceBuffer& out, const DeviceBuffer& lse) {
  const DecodeInputs& inputs = context.inputs;
  const std::int64_t count = inputs.rows() * inputs.what.shape.value_dim;
  const auto raw = on_host<std::uint16_t>(out, count, context.stream);
  DecodeOutput output{.out = std::vector<float>(raw.size()), .lse = on_host<float>(lse, inputs.rows(), context.stream)};
  convert_to_float(inputs.what.element_type, reinterpret_cast<const std::byte*>(raw.data()), raw.size(),
                   output.out.data());
  return output;
}

}  // namespace

AttentionResult::AttentionResult(const DecodeContext& context)
    : out(static_cast<std::size_t>(2 * context.inputs.rows() * context.inputs.what.shape.value_dim)),
      lse(static_cast<std::size_t>(context.inputs.rows()) * sizeof(float)) {}

DeviceBuffer deltas_on_device(const DecodeContext& context, double delta) {
  const std::vector<float> deltas(static_cast<std::size_t>(context.inputs.what.shape.num_kv_heads),
                                  static_cast<float>(delta));
  return on_device(deltas.data(), deltas.size() * sizeof(float), context.stream);
}

void check_attention(const KernelSpec& spec, const DecodeContext& context, int bits, const KeptBlocks& kept,
                     const AttentionResult& attention, KernelResult& result) {
  const DecodeOutput found = output_on_host(context, attention.out, attention.lse);
  const ReferenceOutput expected = context.reference.attend(bits, kept);
  check_output(name_of(spec, context), found, expected.out, expected.lse,
               decode_tolerance(context.inputs.what.element_type), result.check);
  result.check.against = reference_check_text(context.inputs.rows());
  const ReferenceOutput& exact = context.reference.exact();
  result.fidelity = fidelity_of(found, exact.out, exact.lse);
}

}  // namespace attest
