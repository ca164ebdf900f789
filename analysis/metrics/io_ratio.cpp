// io_ratio on the CPU.
#include "analysis/metrics/io_ratio.h"

namespace attest {

void io_ratio(const SelectorRow& row, std::span<double> out) {
  const GroupReads& reads = *row.reads;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double kept = static_cast<double>(reads.kept_tokens[i]) - reads.cost.free_tokens;
    out[i] = (reads.cost.fixed + reads.cost.per_kept_token * kept) / reads.dense_bytes;
  }
}

}  // namespace attest
