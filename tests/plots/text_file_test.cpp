// write_text_file: what is in the file, and what is said when it cannot be written.
#include "plots/text_file.h"

#include <gtest/gtest.h>

#include <string>
#include <system_error>

#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

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
