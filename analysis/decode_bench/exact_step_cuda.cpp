// Views of the copies.
#include "analysis/decode_bench/exact_step_cuda.h"

#include "dumps/base/error.h"

namespace attest {

ExactStep::ExactStep(const DecodeContext& context) : context_(context), copies_(context.copies.dense()) {
  const KernelInputs& what = context.inputs.what;
  if (what.shape.head_dim != what.shape.value_dim)
    throw NotMeasurable("keys and values have different numbers of channels");
  const std::vector<int> lengths(static_cast<std::size_t>(what.batch), static_cast<int>(what.length));
  lengths_ = on_device(lengths.data(), lengths.size() * sizeof(int), context.stream);
  check_exact_cache(cache(0), context.sub_block);
}

ExactCache ExactStep::cache(int copy) const {
  const KernelInputs& what = context_.inputs.what;
  const KeysValues& own = copies_[static_cast<std::size_t>(copy)];
  ExactCache cache;
  cache.batch = what.batch;
  cache.num_kv_heads = what.shape.num_kv_heads;
  cache.group = what.shape.group();
  cache.head_dim = what.shape.head_dim;
  cache.max_tokens = cache.stride = what.length;
  cache.element_type = what.element_type;
  cache.scale = static_cast<float>(context_.inputs.scale);
  cache.keys = own.k;
  cache.values = own.v;
  cache.lengths = reinterpret_cast<const int*>(lengths_.data());
  return cache;
}

KeptSubBlocks ExactStep::units(int sub_block) const {
  return {.pairs = context_.inputs.pairs(), .length = context_.inputs.what.length, .sub_block = sub_block};
}

double ExactStep::bytes(std::int64_t kept, int sub_block) const {
  const AttentionShape& shape = context_.inputs.what.shape;
  const KeptSubBlocks own = units(sub_block);
  return 2.0 * (static_cast<double>(own.pairs * own.length) * shape.head_dim +
                static_cast<double>(kept * sub_block + own.pairs * own.tail()) * shape.value_dim);
}

}  // namespace attest
