// The table of setting kinds, and resolving a setting for a query.
#include "kernels/base/setting.h"

#include <gtest/gtest.h>

#include <set>

namespace attest {
namespace {

// info_of() uses the value of the enum as index into the table.
TEST(SettingKinds, TableIndexIsTheEnumValue) {
  std::set<std::string_view> names;
  for (const SettingKindInfo& info : kSettingKinds) {
    EXPECT_EQ(&info_of(info.kind), &info) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.default_grid.empty(), info.kind == SettingKind::none) << info.name;
  }
}

// A budget of 0.7 % of 1000 keys is 7 tokens, though 0.7 * 1000 / 100 is 6.999999999999999 in binary.
TEST(Setting, PerCentResolvesExactly) {
  EXPECT_EQ((Setting{0.7, true}.resolve(1000)), 7);
  EXPECT_EQ((Setting{12.5, true}.resolve(15)), 1);
  EXPECT_EQ((Setting{1024, false}.resolve(15)), 1024);
}

}  // namespace
}  // namespace attest
