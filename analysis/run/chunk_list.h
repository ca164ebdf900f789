// The chunks that --take names, or those whose names come on the standard input while others are computed.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace attest {

class ChunkList {
 public:
  /// `files` is options.take; "-" alone stands for the lines of the standard input, until its end.
  explicit ChunkList(const std::vector<std::string>& files);

  bool empty() const { return files_.empty(); }
  /// Waits for the next name. None: there is no other. Throws Interrupted if `stop` is set, InputError for a line that
  /// is longer than a name can be.
  std::optional<std::string> next(const std::atomic<bool>& stop);
  /// Its units are in the study: a file that the standard input named is removed.
  void taken(const std::string& path) const;

 private:
  const std::vector<std::string>& files_;
  const bool from_input_;
  std::size_t next_ = 0;  ///< of files_
  std::string read_;      ///< of the standard input, not yet given out
};

}  // namespace attest
