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
  EXPECT_EQ(byte_size_text(0x1p30 * 13), "13.0 GiB");
  EXPECT_EQ(byte_size_text(1023.94 * 1024), "1023.9 KiB");
  EXPECT_EQ(byte_size_text(1023.96 * 1024), "1.0 MiB") << "by the rounded number";
  EXPECT_EQ(byte_size_text(1023.6), "1.0 KiB");
  EXPECT_EQ(byte_size_text(0x1p60), "1024.0 PiB");
}

TEST(ByteSize, IsParsedAsItIsPrinted) {
  for (const double bytes : {1.0, 1023.0, 0x1p10, 0x1p21, 0x1p32, 0x1p43, 0x1p54})
    EXPECT_EQ(parse_byte_size(byte_size_text(bytes)), static_cast<std::uint64_t>(bytes));
}

}  // namespace
}  // namespace attest
