// The last way out for text on a terminal: whatever a name in a file holds, nothing that a terminal obeys passes.
#pragma once

#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace attest {

/// While it lives, what is written to the stream is printable() but for line breaks and tabs. Characters may come in
/// pieces.
class PrintableStream : private std::streambuf {
 public:
  explicit PrintableStream(std::ostream& stream);
  ~PrintableStream() override;
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;

 private:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;
  bool pass(std::string_view text);

  std::mutex mutex_;
  std::ostream& stream_;
  std::streambuf* target_;
  std::string pending_;  ///< the first bytes of a character
};

}  // namespace attest
