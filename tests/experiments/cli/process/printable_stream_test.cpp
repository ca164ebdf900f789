// What a terminal would obey does not pass, however it is written; everything else does.
#include "experiments/cli/process/printable_stream.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace attest {
namespace {

constexpr const char* kText = "ü\t1\n\x1b[31m\x07\r\u0085\u202e\U000e0041\xff\xc3\n\xe2\x82";
constexpr const char* kShown = "ü\t1\n\\x1b[31m\\x07\\x0d\\u0085\\u202e\\U000e0041\\xff\\xc3\n\\xe2\\x82";

std::string shown(const std::string& text, std::size_t piece) {
  std::ostringstream out;
  {
    const PrintableStream filter(out);
    for (std::size_t at = 0; at < text.size(); at += piece) out << text.substr(at, piece);
  }
  return out.str();
}

TEST(PrintableStream, OnlyPrintableTextPasses) {
  EXPECT_EQ(shown(kText, 1000), kShown);
  EXPECT_EQ(shown("", 1), "");
}

TEST(PrintableStream, CharactersMayComeInPieces) {
  for (std::size_t piece = 1; piece < 6; ++piece) EXPECT_EQ(shown(kText, piece), kShown) << piece;
  std::ostringstream out;
  {
    const PrintableStream filter(out);
    for (const char c : std::string(kText)) out.put(c);
  }
  EXPECT_EQ(out.str(), kShown);
}

TEST(PrintableStream, AStreamIsItsOwnAgain) {
  std::ostringstream out;
  {
    const PrintableStream filter(out);
    out << "a" << std::flush;
    EXPECT_EQ(out.str(), "a");
  }
  EXPECT_EQ(out.str(), "a");
  out << '\x1b';
  EXPECT_EQ(out.str(), "a\x1b");
}

/// A full disk or a pipe without a reader.
TEST(PrintableStream, AFailureIsTold) {
  struct Full : std::streambuf {
  } full;
  std::ostream out(&full);
  const PrintableStream filter(out);
  out << "a";
  EXPECT_FALSE(out.good());
}

}  // namespace
}  // namespace attest
