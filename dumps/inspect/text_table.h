// The columns of the text that `attest inspect` prints.
#pragma once

#include <string>
#include <vector>

namespace attest {

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
