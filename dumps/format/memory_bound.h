// How much memory the values of a layer may take: a small compressed file may claim a large layer.
#pragma once

#include <cstdint>
#include <string_view>

#include "dumps/base/input_file.h"

namespace attest {

/// Memory that a layer may take without --allow-memory.
inline constexpr std::uint64_t kFreeMemory = std::uint64_t{4} << 30;
inline constexpr std::uint64_t kFreeExpansion = 16;  ///< times the file's bytes on disk

/// Throws InputError if `object` of `file` needs more bytes than `allowed`; 0 stands for kFreeMemory, or kFreeExpansion
/// times the file's bytes on disk if that is more.
void check_memory_bound(const InputFile& file, std::string_view object, std::uint64_t needed,
                        std::uint64_t allowed = 0);

}  // namespace attest
