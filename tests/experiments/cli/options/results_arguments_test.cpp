// RESULTS... of a command line: names, order, files that cannot be opened.
#include "experiments/cli/options/results_arguments.h"

#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

/// Parses `words` as the arguments of a command.
void parse(ResultsArguments& results, const std::vector<std::string>& words) {
  Command command("attest", "");
  results.add_to(command);
  command.parse(words);
}

TEST(ResultsArguments, AreOpenedInTheOrderTyped) {
  const ScratchFolder folder;
  std::vector<std::string> names;
  for (const char* name : {"c.h5", "a.h5", "b.h5"}) {
    names.push_back(folder.file(name));
    test::write_small_study(names.back());
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
  EXPECT_THROW(parse(results, {}), UsageError);
}

TEST(ResultsArguments, AFileThatCannotBeOpenedIsNamed) {
  const ScratchFolder folder;
  test::write_small_study(folder.file("a.h5"));
  ResultsArguments results;
  parse(results, {folder.file("a.h5"), folder.file("gone.h5")});
  EXPECT_EQ(message_of<InputError>([&] { results.open(); }),
            folder.file("gone.h5") + ": cannot be opened (No such file or directory)");
}

}  // namespace
}  // namespace attest
