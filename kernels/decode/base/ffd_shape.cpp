// Checks of a cache's shape and of a decode's options.
#include "kernels/decode/base/ffd_shape.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "dumps/base/error.h"

namespace attest {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 27;
constexpr int kMaxBoundaryBlocks = 4, kMaxPairs = 1 << 19;

[[noreturn]] void refuse(const std::string& what) { throw InputError("FFD decode: " + what); }

void check_end_blocks(const FfdDecodeOptions& o, const char* name, int blocks) {
  if (blocks < 0 || blocks > kMaxBoundaryBlocks)
    refuse(fmt::format("expected 0 to {} {} blocks, found {}", kMaxBoundaryBlocks, name, blocks));
  if (o.pseudo_max == FfdDecodePseudoMax::exact && blocks > 1)
    refuse(fmt::format("expected at most one {} block for an exact pseudo-max, found {}", name, blocks));
}

}  // namespace

bool fits_fragments(const FfdCacheShape& s) {
  return (s.head_dim == 64 || s.head_dim == 128) && s.value_dim == s.head_dim &&
         (s.bits == 2 || (s.head_dim == 128 && s.group <= 4));
}

void check_shape(const FfdCacheShape& s) {
  if (s.batch < 1 || s.num_kv_heads < 1)
    refuse(fmt::format("expected at least one sequence and one KV head, found {} and {}", s.batch, s.num_kv_heads));
  if (static_cast<std::int64_t>(s.batch) * s.num_kv_heads > kMaxPairs)
    refuse(fmt::format("expected at most {} sequences times KV heads, found {}", kMaxPairs, s.pairs()));
  if (s.group < 1 || s.group > kFfdMaxGroup)
    refuse(fmt::format("expected 1 to {} query heads per KV head, found {}", kFfdMaxGroup, s.group));
  if (s.head_dim < 1 || s.head_dim > kFfdMaxChannels || s.value_dim < 1 || s.value_dim > kFfdMaxChannels)
    refuse(fmt::format("expected head_dim and value_dim of 1 to {}, found {} and {}", kFfdMaxChannels, s.head_dim,
                       s.value_dim));
  if (s.max_tokens < 1 || s.max_tokens > kMaxTokens)
    refuse(fmt::format("expected 1 to {} tokens, found {}", kMaxTokens, s.max_tokens));
  if (s.element_type == ElementType::float32) refuse("expected float16 or bfloat16, found float32");
  if (s.bits != 2 && s.bits != 4 && s.bits != 8)
    refuse(fmt::format("expected codes of 2, 4 or 8 bits, found {}", s.bits));
  if (s.layout == FfdCacheLayout::fragments && !fits_fragments(s))
    refuse(fmt::format(
        "expected head_dim = value_dim = 64 with 2 bits, or 128 (more bits: up to 4 query heads per KV head) for "
        "the layout of tensor cores, found {}, {}, {} bits and {} heads",
        s.head_dim, s.value_dim, s.bits, s.group));
}

void check_options(const FfdDecodeOptions& o) {
  if (!(o.scale > 0) || std::isinf(o.scale)) refuse(fmt::format("expected a scale above 0, found {}", o.scale));
  if (o.sub_block != 16 && o.sub_block != 32 && o.sub_block != 64 && o.sub_block != 128)
    refuse(fmt::format("expected sub-blocks of 16, 32, 64 or 128 tokens, found {}", o.sub_block));
  check_end_blocks(o, "sink", o.sink_blocks);
  check_end_blocks(o, "local", o.local_blocks);
  if (o.rule == FfdDecodeRule::topk && o.keep_sub_blocks < 1)
    refuse(fmt::format("expected top-k to keep at least one sub-block, found {}", o.keep_sub_blocks));
}

void check_length(const FfdCacheShape& shape, int sequence, std::int64_t length, std::int64_t stride) {
  const std::int64_t maximum = std::min(shape.max_tokens, stride);
  if (length < 0 || length > maximum)
    refuse(fmt::format("expected sequence {} to have 0 to {} tokens, found {}", sequence, maximum, length));
}

}  // namespace attest
