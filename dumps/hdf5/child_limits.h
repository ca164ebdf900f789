// How much memory and time a guarded child may take.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attest {

struct ChildLimits {
  std::size_t memory_bytes = 0;  ///< address space beyond what this process has now
  unsigned processor_seconds = 0;
};

/// Limits for metadata, which cannot be larger than what its file has on disk (InputFile::stored_bytes). The allowances
/// are several times what HDF5 itself needs: 1 s for 14 MB of metadata of layers that have few values.
ChildLimits metadata_limits(std::uint64_t stored_bytes);
/// Limits for `bytes` of values. Decoded chunks pass through at most three buffers; 10 MiB/s is a tenth of the speed of
/// inflating.
ChildLimits value_limits(std::uint64_t stored_bytes, std::size_t bytes);

/// For a child that blocks for ever; generous for slow disks.
unsigned wall_seconds(const ChildLimits& limits);

/// Of this process, in bytes; 0: not known.
std::size_t address_space_in_use();

/// Sets a limit of this process: `resource` is RLIMIT_AS, say. Returns false if it may only have less.
bool set_limit(int resource, std::uint64_t value);

}  // namespace attest
