// LibTorch's attention over all keys, checked against the reference decode.
#include <string>

#include "analysis/decode_bench/decode_method_cuda.h"
#include "analysis/torch/torch_sdpa.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// What LibTorch says when it refuses, as the reason for leaving a method out: its first line.
template <class Call>
auto or_not_measurable(Call&& call) {
  try {
    return call();
  } catch (const DeviceError&) {
    throw;
  } catch (const Error& refused) {
    const std::string text = refused.what();
    throw NotMeasurable(excerpt(text.substr(0, text.find('\n'))));
  }
}

class SdpaMethod final : public DecodeMethod {
 public:
  SdpaMethod(const KernelSpec& spec, const DecodeContext& context)
      : spec_(spec), context_(context), copies_(context.copies.dense()) {}

  KernelResult check() override {
    const SdpaResult found = or_not_measurable([&] { return run_torch_sdpa(call_on(0, context_.stream)); });
    // Its memory is then in LibTorch's cache, and the capture allocates nothing.
    for (int i = 0; i < 2; ++i) enqueue(0, context_.stream);
    context_.stream.synchronize();
    KernelResult result;
    const ReferenceOutput& exact = context_.reference.exact();
    const DecodeOutput output{.out = found.out, .lse = found.lse};
    check_output(name_of(spec_, context_), output, exact.out, exact.lse,
                 decode_tolerance(context_.inputs.what.element_type), result.check);
    result.check.against = reference_check_text(context_.inputs.rows());
    result.fidelity = fidelity_of(output, exact.out, exact.lse);
    result.setting = spec_.setting;
    result.keep_ratio = result.io_ratio = 1;
    result.bytes = dense_bytes(context_.inputs.what);
    return result;
  }

  void enqueue(int copy, cudaStream_t stream) override {
    or_not_measurable([&] { enqueue_torch_sdpa(call_on(copy, stream)); });
  }
  int copies() const override { return static_cast<int>(copies_.size()); }

 private:
  SdpaCall call_on(int copy, cudaStream_t stream) const {
    const DecodeInputs& inputs = context_.inputs;
    const KeysValues& own = copies_[static_cast<std::size_t>(copy)];
    return {.backend = spec_.method == "sdpa_cudnn" ? SdpaBackend::cudnn : SdpaBackend::flash,
            .shape = inputs.what.shape,
            .element_type = inputs.what.element_type,
            .batch = inputs.what.batch,
            .length = inputs.what.length,
            .scale = inputs.scale,
            .q = inputs.q.data(),
            .k = own.k,
            .v = own.v,
            .device = context_.device,
            .stream = stream};
  }

  KernelSpec spec_;
  DecodeContext context_;
  const std::vector<KeysValues>& copies_;
};

}  // namespace

std::unique_ptr<DecodeMethod> make_sdpa_method(const KernelSpec& spec, const DecodeContext& context) {
  return std::make_unique<SdpaMethod>(spec, context);
}

}  // namespace attest
