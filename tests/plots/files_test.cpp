// Text that is written, and what is said when it cannot be; a picture that is cut anywhere, or that lacks bytes in its
// middle, is not whole.
#include "plots/files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

#include "plots/gnuplot.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

class PictureCheckTest : public testing::Test {
 protected:
  bool is_whole(const std::string& bytes, const std::string& format) const {
    return is_whole_picture(scratch_.write("x", bytes), format);
  }

  /// Every way to lose bytes is seen; losses in the middle only where `middle`.
  void expect_losses_seen(const std::string& bytes, const std::string& format, bool middle) const {
    EXPECT_TRUE(is_whole(bytes, format)) << format;
    const std::size_t last = bytes.find_last_not_of("\n");
    for (std::size_t size = 0; size <= last; size += std::max<std::size_t>(1, last / 97))
      EXPECT_FALSE(is_whole(bytes.substr(0, size), format)) << format << " cut to " << size;
    EXPECT_FALSE(is_whole(bytes.substr(0, last), format)) << format << " without its last byte";
    const bool whole = is_whole(std::string(bytes).erase(bytes.size() / 2, 16), format);
    EXPECT_FALSE(middle && whole) << format << " without its middle";
  }

  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(PictureCheckTest, HandMadePictures) {
  const std::string object = "%PDF-1.5\n1 0 obj\n<< /Length 40 >>\nstream\n" + std::string(40, 'x') + "\nendstream\n";
  expect_losses_seen(object + "xref\n0 1\nstartxref\n" + std::to_string(object.size()) + "\n%%EOF\n", "pdf", true);
  expect_losses_seen(object + "2 0 obj\nstartxref\n" + std::to_string(object.size()) + "\n%%EOF", "pdf", true);
  expect_losses_seen("<?xml version=\"1.0\"?>\n<svg width=\"3\">\n<g/>\n</svg>\n\n", "svg", false);
  const auto chunk = [](const std::string& type, const std::string& data) {
    return std::string(3, '\0') + static_cast<char>(data.size()) + type + data + "crc!";
  };
  expect_losses_seen(
      "\x89PNG\r\n\x1a\n" + chunk("IHDR", "0123456789abc") + chunk("IDAT", std::string(90, 'x')) + chunk("IEND", ""),
      "png", true);
}

TEST_F(PictureCheckTest, GnuplotsOwnPictures) {
  scratch_.write("x.gp",
                 "set terminal pdfcairo; set output 'x.pdf'; plot x; unset output\n"
                 "set terminal pngcairo; set output 'x.png'; plot x; unset output\n"
                 "set terminal svg; set output 'x.svg'; plot x; unset output\n");
  const GnuplotRun run = run_gnuplot(folder_, "x.gp", "");
  if (run.status == GnuplotRun::Status::not_installed) GTEST_SKIP() << "gnuplot is not installed";
  ASSERT_EQ(run.status, GnuplotRun::Status::done) << run.message;
  for (const std::string format : {"pdf", "png", "svg"})
    expect_losses_seen(bytes_of_file(scratch_.file("x." + format)), format, format != "svg");
}

TEST_F(PictureCheckTest, WhatIsNotThereIsNotWhole) {
  EXPECT_FALSE(is_whole_picture(folder_ / "absent", "pdf"));
  EXPECT_FALSE(is_whole("<svg></svg>", "pdf"));
  EXPECT_THROW(is_whole("", "gif"), std::logic_error);
}

TEST(TextFile, HoldsTheTextAndNothingElse) {
  const ScratchFolder folder;
  const std::string path = folder.file("a.csv");
  for (const std::string& text : {std::string(100'000, 'x'), std::string("a,b\r\n\0\n", 7), std::string()}) {
    write_text_file(path, text);
    EXPECT_EQ(bytes_of_file(path), text);
  }
}

TEST(TextFile, AnErrorNamesTheFileWithoutItsFolder) {
  const ScratchFolder folder;
  const auto code_of = [](const std::string& path, const std::string& text) {
    try {
      write_text_file(path, text);
    } catch (const std::system_error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(path.substr(path.rfind('/') + 1) + ": ")) << error.what();
      return error.code();
    }
    return std::error_code();
  };
  EXPECT_EQ(code_of(folder.file("none/a.csv"), "x"), std::errc::no_such_file_or_directory);
  EXPECT_EQ(code_of("/dev/full", "x"), std::errc::no_space_on_device);
  EXPECT_EQ(code_of("/dev/full", std::string(1'000'000, 'x')), std::errc::no_space_on_device);
}

}  // namespace
}  // namespace attest
