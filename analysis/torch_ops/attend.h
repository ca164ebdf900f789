// Attention through a selector at one setting, on tensors in host memory: the operator torch.ops.attest.attend without
// LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "analysis/layer/overflow.h"
#include "dumps/attention_layer.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// [batch, heads, tokens, channels] in host memory, channels contiguous. Strides are in elements.
struct HeadsView {
  const std::byte* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, token_stride = 0;
};

/// Queries, keys and values of a batch of sequences of one length. All numbers are read where they are; a KV head's
/// keys and values are converted to float32 one KV head at a time, and float32 ones with contiguous tokens not at all.
struct AttendCall {
  const Selector* selector = nullptr;
  Setting setting;  ///< ignored by a selector without settings
  /// Shape, element type, scale, soft-cap, window, positions of the queries and sinks. Its q, k and v are empty.
  AttentionLayer layer;
  std::int64_t batch = 1;
  HeadsView q, k, v;
  int threads = 1;

  // -- results, row-major
  std::byte* out = nullptr;      ///< [batch, Hq, N, Dv] in the layer's element type
  float* lse = nullptr;          ///< [batch, Hq, N]; -inf if no token is kept
  std::int64_t* kept = nullptr;  ///< [batch, Hkv, N] tokens that any head of the group keeps
};

/// What attend() and cuda_attend() ask before they begin. Throws UsageError if the selector does not support the shape
/// or has options that do not fit the layer: KV heads that it lacks, a file without its scales.
void check_supported(const Selector& selector, const AttentionLayer& layer);

/// Throws UsageError as check_supported() does, InputError if a score, an estimate or an output is NaN or too large.
void attend(const AttendCall& call);

/// So many selectors are remembered: a program that makes up texts must not fill the memory.
inline constexpr std::size_t kMaxSelectors = 1024;

/// The selector that "NAME[:option=value,...]" names. Made once for each text, and its files are read once: later calls
/// return the same one. Beyond kMaxSelectors the one not asked for longest is forgotten. Throws UsageError for other
/// text, and for a selector that needs a dump.
std::shared_ptr<const Selector> selector_of(std::string_view text);

/// The setting that a number stands for. A budget of at least 1 is tokens, below 1 a share of the visible keys. A
/// selector without settings takes 0. Throws UsageError for a number that is no setting of the selector.
Setting setting_of(const Selector& selector, double value);

/// Throws InputError that tells of a number too large. `sequence`: its index in the batch; -1 if there is only one.
[[noreturn]] void refuse_overflow(const Overflow& where, const Selector& selector, const AttentionLayer& layer,
                                  std::int64_t sequence);

}  // namespace attest
