#include "platform/byte_size.h"

#include <gtest/gtest.h>

namespace customccl {
namespace {

TEST(ByteSize, ReadsNumbersWithAndWithoutUnits) {
  EXPECT_EQ(parse_byte_size("0"), 0U);
  EXPECT_EQ(parse_byte_size("1000"), 1000U);
  EXPECT_EQ(parse_byte_size("64K"), 65536U);
  EXPECT_EQ(parse_byte_size("64k"), 65536U);
  EXPECT_EQ(parse_byte_size("1M"), std::size_t{1} << 20);
  EXPECT_EQ(parse_byte_size("16G"), std::size_t{16} << 30);
  EXPECT_EQ(parse_byte_size("2T"), std::size_t{2} << 40);
}

TEST(ByteSize, RefusesEverythingElse) {
  for (const char* text :
       {"", "K", "-1", "+1", "1.5G", "1KB", "1 K", " 1", "1P", "0x10", "99999999999999999999", "20000000T"}) {
    EXPECT_EQ(parse_byte_size(text), std::nullopt) << text;
  }
}

TEST(ByteSize, WritesWhatItReads) {
  EXPECT_EQ(format_byte_size(0), "0");
  EXPECT_EQ(format_byte_size(1000), "1000");
  EXPECT_EQ(format_byte_size(1536), "1536");
  EXPECT_EQ(format_byte_size(std::size_t{16} << 30), "16G");
  for (const std::size_t bytes : {1UL, 1024UL, 1025UL, 3UL << 20, 7UL << 30, 1UL << 50, ~0UL}) {
    EXPECT_EQ(parse_byte_size(format_byte_size(bytes)), bytes);
  }
}

}  // namespace
}  // namespace customccl
