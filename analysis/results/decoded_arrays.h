// The arrays of a results file that HDF5 must decode, because another program compressed them. One guarded child reads
// all of them when the first is needed, if they are as small as such a file may be; else each has a child of its own.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "dumps/base/input_file.h"

namespace attest {

/// Bytes that a file with so many bytes on disk may take when it is decoded.
std::uint64_t max_decoded(std::uint64_t stored_bytes);

class DecodedArrays {
 public:
  struct Array {
    std::string object;  ///< its path in the file
    std::size_t values = 0;
  };

  /// The arrays that read() may be asked for.
  void expect(std::vector<Array> arrays) { arrays_ = std::move(arrays); }

  /// Thread-safe. Throws InputError.
  void read(const InputFile& file, const std::string& object, std::span<float> values) const;

 private:
  void read_all(const InputFile& file) const;

  std::vector<Array> arrays_;
  mutable std::mutex mutex_;
  mutable bool tried_ = false;
  mutable std::map<std::string, std::vector<float>> values_;
};

}  // namespace attest
