// Links into the map.
#include "experiments/report/map_link.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(MapLink, NamesWhatIsChosen) {
  EXPECT_EQ(map_link({.metric = "recall", .selector = "ffd", .setting = "5", .layer = 13, .head = 5}),
            "metric=recall&selector=ffd&setting=5&layer=13&head=5");
  EXPECT_EQ(map_link({}), "");
}

TEST(MapLink, NamesMayHoldAnything) {
  EXPECT_EQ(map_link({.selector = "a&b=\"<ü", .setting = "12.5%"}), "selector=a%26b%3D%22%3C%C3%BC&setting=12.5%25");
}

}  // namespace
}  // namespace attest
