// RESULTS... of a command line: names, order, files that cannot be opened.
#include "experiments/cli/results_arguments.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "dumps/base/error.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

/// Parses `words` as the arguments of a command.
void parse(ResultsArguments& results, std::vector<std::string> words) {
  CLI::App command;
  results.add_to(command);
  std::ranges::reverse(words);  // CLI11 parses a vector from its end
  command.parse(words);
}

TEST(ResultsArguments, AreOpenedInTheOrderTyped) {
  const ScratchFolder folder;
  std::vector<std::string> names;
  for (const char* name : {"c.h5", "a.h5", "b.h5"}) {
    names.push_back(folder.file(name));
    testing::write_small_study(names.back());
  }
  ResultsArguments results;
  parse(results, names);
  EXPECT_EQ(results.paths(), names);
  for (int times = 0; times < 2; ++times) {
    const ResultsFiles files = results.open();
    ASSERT_EQ(files.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(files[i]->path(), names[i]);
      EXPECT_EQ(files[i]->study().selectors.size(), 2u);
    }
  }
}

TEST(ResultsArguments, AtLeastOneIsNeeded) {
  ResultsArguments results;
  EXPECT_THROW(parse(results, {}), CLI::RequiredError);
}

TEST(ResultsArguments, AFileThatCannotBeOpenedIsNamed) {
  const ScratchFolder folder;
  testing::write_small_study(folder.file("a.h5"));
  ResultsArguments results;
  parse(results, {folder.file("a.h5"), folder.file("gone.h5")});
  EXPECT_EQ(message_of<InputError>([&] { results.open(); }),
            folder.file("gone.h5") + ": cannot be opened (No such file or directory)");
}

}  // namespace
}  // namespace attest
