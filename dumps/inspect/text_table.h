// Pieces of the text that `attest inspect` prints: columns, and sizes in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attest {

/// "512 B", "1.5 MiB"
std::string bytes_text(std::int64_t bytes);

/// Left-aligned columns, two spaces apart.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { add(std::move(header)); }
  /// A cell per column of the header.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace attest
