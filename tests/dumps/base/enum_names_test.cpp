// Names of the values of an enum.
#include "dumps/base/enum_names.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

enum class Fruit { apple, pear, plum };
constexpr EnumName<Fruit> kFruitNames[] = {{Fruit::pear, "pear"}, {Fruit::apple, "an apple"}};

TEST(EnumNames, TheirOrderIsNotThatOfTheValues) {
  EXPECT_EQ(name_in(kFruitNames, Fruit::apple), "an apple");
  EXPECT_EQ(value_in(kFruitNames, "pear"), Fruit::pear);
  EXPECT_EQ(names_in(kFruitNames), (std::vector<std::string>{"pear", "an apple"}));
}

TEST(EnumNames, WhatIsMissingIsADefect) {
  EXPECT_THROW(name_in(kFruitNames, Fruit::plum), std::logic_error);
  EXPECT_THROW(value_in(kFruitNames, "plum"), std::logic_error);
}

}  // namespace
}  // namespace attest
