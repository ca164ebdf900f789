// The order in which later prompts are tested, and what is said about prompts of another kind.
#include "experiments/validation/monitored.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

constexpr std::size_t kPrompts = 12;

class TestingOrder : public testing::Test {
 protected:
  /// The names of the prompts in the order of testing, of two files as they are given.
  std::vector<std::string> names(const std::string& first, const std::string& second, std::uint64_t seed) {
    std::vector<ResultsFile> open;
    for (const std::string& name : {first, second}) {
      const std::string path = folder_.file(name + ".h5");
      if (!std::filesystem::exists(path))
        test::write_made(path, {.path = name, .prompts = test::made_prompts(kPrompts, name)});
      open.emplace_back(path);
    }
    const ResultsFile* files[] = {&open[0], &open[1]};
    const PromptSet set = gather_prompts(files, {});
    std::vector<std::string> found;
    for (const std::size_t p : testing_order(set, files, seed)) found.push_back(set.prompts[p].name);
    return found;
  }

  ScratchFolder folder_;
};

TEST_F(TestingOrder, FilesStandAsGivenAndTheirPromptsAreShuffled) {
  for (const auto& [first, second] : {std::pair("a", "b"), std::pair("b", "a")}) {
    const std::vector<std::string> found = names(first, second, 1);
    ASSERT_EQ(found.size(), 2 * kPrompts);
    EXPECT_EQ(std::set(found.begin(), found.end()).size(), 2 * kPrompts);
    for (std::size_t p = 0; p < found.size(); ++p) EXPECT_EQ(found[p].substr(0, 1), p < kPrompts ? first : second);
    EXPECT_FALSE(std::is_sorted(found.begin(), found.begin() + kPrompts)) << "names may be in the order of tasks";
    EXPECT_EQ(names(first, second, 1), found);
    EXPECT_NE(names(first, second, 2), found);
  }
}

/// Of prompts whose tasks and lengths are given.
PromptSet set_of(const std::vector<std::pair<std::string, std::int64_t>>& prompts) {
  PromptSet set;
  for (const auto& [task, tokens] : prompts) {
    Prompt& prompt = set.prompts.emplace_back();
    prompt.name = "p";
    prompt.task = task;
    prompt.num_tokens = tokens;
  }
  return set;
}

TEST(Differences, OfTasksAndLengths) {
  Recommended recommended;
  recommended.tasks = {"kv"};
  recommended.lengths = {1000, 2000};
  EXPECT_TRUE(differences(recommended, set_of({{"kv", 1000 - kAnswerTokens}, {"kv", 2000 + kAnswerTokens}})).empty());
  EXPECT_EQ(differences(recommended, set_of({{"kv", 999 - kAnswerTokens}, {"mk", 1500}, {"vt", 2001 + kAnswerTokens}})),
            (std::vector<std::string>{"2 of 3 prompts are of tasks that no certifying prompt is of: mk, vt",
                                      "2 of 3 prompts are shorter or longer than the 1000 to 2000 tokens of the "
                                      "certifying ones"}));
  recommended.tasks.clear();
  recommended.lengths.reset();
  EXPECT_TRUE(differences(recommended, set_of({{"mk", 1}})).empty()) << "a file may not say what certified";
}

}  // namespace
}  // namespace attest
