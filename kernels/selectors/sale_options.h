// Options of sale and values derived from them, shared by the CPU and CUDA code. Method and sources: sale.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/quantize/sale_int4.h"
#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"
#include "kernels/selectors/selector.h"

namespace attest {

class SaleOptions {
 protected:
  explicit SaleOptions(OptionReader& reader) {
    key_scale_ =
        reader.enumeration<SaleKeyScale>("key_scale", {"block", "token"}, {"a scale per block of keys, or per token"});
    reader.choice("q_mean", {"none"}, {"no mean query is subtracted: a dump lacks the prompt's queries"});
    dense_below_ =
        reader.integer("dense_below", 1024, 0, 1 << 30, {"a query that sees at most so many keys keeps all", "tokens"});
  }

  static std::int64_t blocks(std::int64_t visible) { return (visible + kSaleBlock - 1) / kSaleBlock; }

  /// First token of the local blocks, which come after the sink block.
  static std::int64_t first_local(std::int64_t visible) {
    return std::max<std::int64_t>(1, blocks(visible) - (4 + (blocks(visible) - 1) % 4)) * kSaleBlock;
  }

  bool keeps_all(std::int64_t visible) const { return visible <= dense_below_; }

  IoCost bytes(const KvShape& kv, std::int64_t visible) const {
    const auto length = static_cast<double>(visible);
    if (keeps_all(visible)) return {.fixed = length * kv.token_bytes(), .per_kept_token = 0, .free_tokens = 0};
    return {.fixed = length * kv.head_dim / 2 + 2 * length, .per_kept_token = kv.token_bytes(), .free_tokens = 0};
  }

  SaleKeyScale key_scale_;
  int dense_below_;
};

/// Defined in sale_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_sale(const SaleOptions& options);

}  // namespace attest
