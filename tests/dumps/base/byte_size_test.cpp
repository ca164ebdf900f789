// Sizes in bytes: units, and what is no size.
#include "dumps/base/byte_size.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(ByteSize, IsParsed) {
  EXPECT_EQ(parse_byte_size("512"), 512u);
  EXPECT_EQ(parse_byte_size("16GiB"), std::uint64_t{16} << 30);
  EXPECT_EQ(parse_byte_size("1.5 KB"), 1500u);
  EXPECT_EQ(parse_byte_size("2T"), std::uint64_t{2} << 40);
  for (const char* text : {"", "x", "-1", "0", "0.1", "1e30", "5 apples", "nan", "inf", "12GiBs"})
    EXPECT_EQ(parse_byte_size(text), std::nullopt) << text;
}

TEST(ByteSize, IsPrinted) {
  EXPECT_EQ(byte_size_text(512), "512 B");
  EXPECT_EQ(byte_size_text(std::int64_t{13} << 30), "13.0 GiB");
}

}  // namespace
}  // namespace attest
