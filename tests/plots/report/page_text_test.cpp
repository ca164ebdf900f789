// Escapes of text in pages.
#include "plots/report/page_text.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(PageText, NothingOfATextIsMarkup) {
  EXPECT_EQ(html_text("<b a=\"x\" c='y'>&amp;"), "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(html_text("δ ≤ 5"), "δ ≤ 5");
}

TEST(PageText, JsonDoesNotEndItsScript) {
  EXPECT_EQ(json_in_script(R"({"a":"</script><!--<script>"})"), R"({"a":"\u003c/script>\u003c!--\u003cscript>"})");
}

TEST(PageText, Base64) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64(std::string("\xff\xfe\x00\x80", 4)), "//4AgA==");
}

}  // namespace
}  // namespace attest
