// The scan of KIVI's 2-bit keys, which scores every token and selects nothing.
#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/decode_bench/exact_step_cuda.h"
#include "analysis/decode_bench/graph_timing_cuda.h"
#include "dumps/base/error.h"
#include "kernels/decode/baselines/kivi_scan_cuda.h"
#include "kernels/quantize/kivi_groups.h"

namespace attest {
namespace {

/// Of a score, in nats: sums in float32.
constexpr double kScoreTolerance = 2e-3;

class KiviMethod final : public DecodeMethod {
 public:
  KiviMethod(const KernelSpec& spec, const DecodeContext& context)
      : spec_(spec),
        context_(context),
        step_(context),
        scores_(static_cast<std::size_t>(context.inputs.rows() * context.inputs.what.length) * sizeof(float)) {
    const int copies = copies_beyond_cache(code_bytes());
    context.copies.budget().require(static_cast<std::int64_t>(copies * code_bytes()), "copies of KIVI's codes");
    for (int i = 0; i < copies; ++i) {
      keys_.push_back(std::make_unique<KiviKeys2Bit>(step_.cache(0)));
      keys_.back()->build(step_.cache(0), context.stream);
    }
  }

  KernelResult check() override {
    enqueue(0, context_.stream);
    const KernelInputs& what = context_.inputs.what;
    const int group = what.shape.group();
    const auto found = on_host<float>(scores_, what.length * group, context_.stream);
    const std::vector<float> keys = plain_keys();
    const auto raw =
        on_host<std::uint16_t>(context_.inputs.q, std::int64_t{group} * what.shape.head_dim, context_.stream);
    const std::vector<float> q = floats(raw);
    for (std::int64_t t = 0; t < what.length; ++t)
      for (int h = 0; h < group; ++h) {
        double score = 0;
        for (int c = 0; c < what.shape.head_dim; ++c)
          score += static_cast<double>(q[static_cast<std::size_t>(h * what.shape.head_dim + c)]) *
                   keys[static_cast<std::size_t>(t * what.shape.head_dim + c)];
        const double difference =
            std::fabs(context_.inputs.scale * score - found[static_cast<std::size_t>(t * group + h)]);
        if (!(difference <= kScoreTolerance))
          throw Error(name_of(spec_, context_) + ": a score differs from that of plain code by " +
                      std::to_string(difference) + ", expected at most " + std::to_string(kScoreTolerance) +
                      "; nothing was timed");
      }
    KernelResult result;
    result.check.against = "scores of one KV head from plain code in double precision";
    result.setting = spec_.setting;
    result.keep_ratio = 1;
    result.bytes = code_bytes();
    result.io_ratio = result.bytes / dense_bytes(what);
    return result;
  }

  void enqueue(int copy, cudaStream_t stream) override {
    cuda_kivi_scan(step_.cache(copy % step_.copies()), keys_[static_cast<std::size_t>(copy)]->view(), step_.q(),
                   reinterpret_cast<float*>(scores_.data()), stream);
  }
  int copies() const override { return static_cast<int>(keys_.size()); }

 private:
  /// Codes with 16-bit scales and minima; the window's keys in 16 bits.
  double code_bytes() const {
    const KernelInputs& what = context_.inputs.what;
    const int coded = kivi_quantised_tokens(static_cast<int>(what.length));
    const double per_channel = coded / 4.0 + 4.0 * coded / kKiviGroup + 2.0 * static_cast<double>(what.length - coded);
    return per_channel * what.shape.head_dim * static_cast<double>(context_.inputs.pairs());
  }

  std::vector<float> floats(const std::vector<std::uint16_t>& raw) const {
    std::vector<float> values(raw.size());
    convert_to_float(context_.inputs.what.element_type, reinterpret_cast<const std::byte*>(raw.data()), raw.size(),
                     values.data());
    return values;
  }

  /// The first pair's keys as the quantiser of the CPU gives them back, [length, D].
  std::vector<float> plain_keys() const {
    const KernelInputs& what = context_.inputs.what;
    const int dim = what.shape.head_dim;
    std::vector<float> keys = floats(on_host<std::uint16_t>(context_.inputs.k, what.length * dim, context_.stream));
    const std::vector<float> exact = keys;
    kivi_quantize_per_channel(
        {.bits = 2, .group = kKiviGroup, .arithmetic = QuantArithmetic::dump, .element_type = what.element_type},
        exact.data(), kivi_quantised_tokens(static_cast<int>(what.length)), dim, keys.data());
    return keys;
  }

  KernelSpec spec_;
  DecodeContext context_;
  ExactStep step_;
  std::vector<std::unique_ptr<KiviKeys2Bit>> keys_;
  DeviceBuffer scores_;
};

}  // namespace

std::unique_ptr<DecodeMethod> make_kivi_method(const KernelSpec& spec, const DecodeContext& context) {
  return std::make_unique<KiviMethod>(spec, context);
}

}  // namespace attest
