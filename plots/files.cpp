// Writes text; checks the ends of pdf, svg, png and tikz files, and the offsets within a pdf or a png that lead there.
#include "plots/files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace attest {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

/// A pdf ends with the offset of its cross-reference table or stream, and %%EOF. (ISO 32000-1, 7.5.5)
bool is_whole_pdf(std::string_view bytes) {
  constexpr std::string_view kStart = "startxref";
  bytes = trimmed(bytes);
  const std::size_t start = bytes.rfind(kStart);
  if (!bytes.starts_with("%PDF-") || !bytes.ends_with("%%EOF") || start == std::string_view::npos) return false;
  std::string_view number = bytes.substr(start + kStart.size());
  number.remove_prefix(std::min(number.find_first_not_of(" \r\n"), number.size()));
  std::size_t offset = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), offset);
  if (error != std::errc{} || offset >= start) return false;
  const std::string_view table = bytes.substr(offset);
  return table.starts_with("xref") || table.substr(0, 32).find(" obj") != std::string_view::npos;
}

/// A png is a signature and chunks (length, type, data, CRC); the last chunk is IEND. (ISO/IEC 15948, 5)
bool is_whole_png(std::string_view bytes) {
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  constexpr std::size_t kFrame = 12;  // length, type and CRC
  if (!bytes.starts_with(kSignature)) return false;
  bytes.remove_prefix(kSignature.size());
  while (bytes.size() >= kFrame) {
    std::uint32_t length = 0;
    for (int i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
    if (length > bytes.size() - kFrame) return false;
    const bool last = bytes.substr(4, 4) == "IEND";
    bytes.remove_prefix(kFrame + length);
    if (last) return bytes.empty();
  }
  return false;
}

bool is_whole_svg(std::string_view bytes) {
  return bytes.find("<svg") != std::string_view::npos && trimmed(bytes).ends_with("</svg>");
}

bool is_whole_tikz(std::string_view bytes) {
  return bytes.find("\\end{tikzpicture}") != std::string_view::npos && trimmed(bytes).ends_with("%% gnuplot variables");
}

}  // namespace

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), path.filename().string());
}

bool is_whole_picture(const std::filesystem::path& file, const std::string& format) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in) return false;
  if (format == "pdf") return is_whole_pdf(bytes);
  if (format == "svg") return is_whole_svg(bytes);
  if (format == "png") return is_whole_png(bytes);
  if (format == "tikz") return is_whole_tikz(bytes);
  throw std::logic_error("no check for pictures of format " + format);
}

}  // namespace attest
