// The bound that dumps and estimates share, and its sentence.
#include "dumps/format/memory_bound.h"

#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/byte_size.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest {

void check_memory_bound(const InputFile& file, std::string_view object, std::uint64_t needed, std::uint64_t allowed) {
  const std::uint64_t stored = file.stored_bytes();
  if (needed <= (allowed > 0 ? allowed : std::max(kFreeMemory, kFreeExpansion * stored))) return;
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  throw InputError(fmt::format("{}: {}: takes {} of memory, the file has {} on disk; --allow-memory {}GiB allows it",
                               file.path(), printable(object), byte_size_text(needed), byte_size_text(stored),
                               (needed + kGiB - 1) / kGiB));
}

}  // namespace attest
