// Places of a made context, and the copy.
#include "analysis/decode_bench/tiling.h"

#include <algorithm>
#include <cstring>

#include "kernels/decode/base/ffd_shape.h"

namespace attest {
namespace {

constexpr std::int64_t kFirst = kFfdBlock, kLast = 4 * kFfdBlock;

}  // namespace

std::vector<std::int64_t> tiled_tokens(std::int64_t tokens, std::int64_t length) {
  // A third each where the dump, or the context, is too short for the blocks.
  const std::int64_t third = std::max<std::int64_t>(1, std::min(tokens, length) / 3);
  const std::int64_t first = std::min({kFirst, third, length});
  const std::int64_t last = std::min({kLast, third, tokens - first, length - first});
  std::int64_t period = tokens - first - last;
  if (period >= kFfdBlock) period -= period % kFfdBlock;
  const std::int64_t middle = length - first - last;
  const bool cut = middle <= tokens - first - last;
  std::vector<std::int64_t> which(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    std::int64_t token = i;
    if (i >= first + middle)
      token = tokens - (length - i);
    else if (i >= first && cut)
      token = tokens - last - (first + middle - i);
    else if (i >= first && period > 0)
      token = first + (i - first) % period;
    else if (i >= first)
      token = i % tokens;  // a dump of one or two tokens
    which[static_cast<std::size_t>(i)] = token;
  }
  return which;
}

std::vector<std::byte> gather_tokens(std::span<const std::byte> values, std::int64_t heads, std::int64_t tokens,
                                     std::int64_t row_bytes, std::span<const std::int64_t> which) {
  std::vector<std::byte> out(static_cast<std::size_t>(heads * row_bytes) * which.size());
  std::byte* to = out.data();
  for (std::int64_t head = 0; head < heads; ++head)
    for (const std::int64_t token : which) {
      std::memcpy(to, values.data() + (head * tokens + token) * row_bytes, static_cast<std::size_t>(row_bytes));
      to += row_bytes;
    }
  return out;
}

}  // namespace attest
