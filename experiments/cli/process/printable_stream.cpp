// A stream buffer in front of another.
#include "experiments/cli/process/printable_stream.h"

#include <algorithm>

#include "dumps/base/printable.h"

namespace attest {
namespace {

/// The number of bytes at the end of a text that begin a character of UTF-8 without its end.
std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t n = 1; n <= 3 && n <= text.size(); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return n < (byte >= 0xf0 ? 4U : byte >= 0xe0 ? 3U : 2U) ? n : 0;
  }
  return 0;
}

}  // namespace

PrintableStream::PrintableStream(std::ostream& stream) : stream_(stream), target_(stream.rdbuf(this)) {}

PrintableStream::~PrintableStream() {
  sync();
  stream_.rdbuf(target_);
}

PrintableStream::int_type PrintableStream::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char byte = traits_type::to_char_type(c);
  return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
}

std::streamsize PrintableStream::xsputn(const char* text, std::streamsize size) {
  const std::lock_guard lock(mutex_);
  pending_.append(text, static_cast<std::size_t>(size));
  const std::size_t whole = pending_.size() - unfinished_bytes(pending_);
  const bool passed = pass(std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
  return passed ? size : 0;
}

int PrintableStream::sync() {
  const std::lock_guard lock(mutex_);
  const bool passed = pass(pending_);
  pending_.clear();
  return passed && target_->pubsync() == 0 ? 0 : -1;
}

bool PrintableStream::pass(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    out += printable(text.substr(0, end));
    if (end < text.size()) out += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto size = static_cast<std::streamsize>(out.size());
  return target_->sputn(out.data(), size) == size;
}

}  // namespace attest
