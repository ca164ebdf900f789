// Writes a text file.
#include "plots/text_file.h"

#include <cerrno>
#include <fstream>
#include <system_error>

namespace attest {

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::system_error(errno, std::generic_category(), path.filename().string());
}

}  // namespace attest
