// The list of selectors against the source files that define them.
#include "kernels/selectors/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "dumps/base/error.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using ::testing::UnorderedElementsAreArray;

const fs::path kFolder = fs::path(ATTEST_SOURCE_DIR) / "kernels/selectors";

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// For each occurrence of `before`, the text between it and the next character of `ends`.
std::vector<std::string> between(const std::string& text, std::string_view before, const char* ends) {
  std::vector<std::string> found;
  for (std::size_t at = text.find(before); at != text.npos; at = text.find(before, at + 1)) {
    const std::size_t begin = at + before.size();
    found.push_back(text.substr(begin, text.find_first_of(ends, begin) - begin));
  }
  return found;
}

std::vector<std::string> listed_names() {
  std::vector<std::string> names;
  for (const SelectorInfo* info : all_selectors()) names.emplace_back(info->name);
  return names;
}

TEST(Registry, HasAsManySelectorsAsItsList) {
  const std::vector<std::string> lines = between(text_of(kFolder / "registry.cpp"), " one(", ")");
  EXPECT_GE(lines.size(), 12u);  // guards against a pattern that no longer matches the source
  EXPECT_EQ(listed_names(), lines) << "in the order of the list, under the names of their NAME_info";
}

// A selector missing from the list would be compiled, but no study could run it.
TEST(Registry, EveryFileThatDefinesASelectorIsListed) {
  constexpr std::string_view kSuffix = "_info";
  std::vector<std::string> defined;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".cpp") continue;
    for (const std::string& name : between(text_of(entry.path()), "\nconst SelectorInfo ", "{ =;"))
      if (name.ends_with(kSuffix)) defined.push_back(name.substr(0, name.size() - kSuffix.size()));
  }
  EXPECT_EQ(std::erase(defined, "template"), 1) << "compiled and tested, but not listed";
  EXPECT_THAT(listed_names(), UnorderedElementsAreArray(defined));
}

TEST(Registry, NamesAreUniqueAndDocumented) {
  std::set<std::string_view> names;
  for (const SelectorInfo* info : all_selectors()) {
    EXPECT_TRUE(names.insert(info->name).second) << info->name;
    EXPECT_FALSE(info->summary.empty() || info->io_bytes.empty() || info->source.empty()) << info->name;
  }
  EXPECT_GE(names.size(), 9u);
}

TEST(Registry, FindsASelectorByItsWholeName) {
  for (const SelectorInfo* info : all_selectors()) EXPECT_EQ(find_selector(info->name), info);
  for (const char* name : {"", "top", "topkk", "TOPK", "ffd ", "template"})
    EXPECT_EQ(find_selector(name), nullptr) << name;
}

TEST(Registry, MakesWhatItLists) {
  for (const SelectorInfo* info : all_selectors())
    EXPECT_EQ(make_selector({.label = "a", .name = std::string(info->name), .options = {}})->name(), info->name);
  EXPECT_THROW(make_selector({.label = "a", .name = "template", .options = {}}), UsageError);
}

}  // namespace
}  // namespace attest
