// RESULTS... of a command line: names, order, files that cannot be opened; benches and answers to tasks among them.
#include "experiments/cli/options/results_arguments.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "dumps/base/error.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/hdf5_edit.h"
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

using Names = std::vector<std::string>;

TEST(FigureInputs, KeepTheirOrderAmongThemselves) {
  const ScratchFolder folder;
  const Names benches = {folder.write("b.json", "no JSON"), folder.write("bench", " \n {}"), folder.file("gone.json")};
  const Names results = {folder.write("r.h5", "\x89HDF"), folder.write("empty", ""), folder.file("gone.h5"),
                         folder.write("list", "[{}]")};
  const FigureInputs inputs =
      split_inputs({results[0], benches[0], results[1], results[2], benches[1], benches[2], results[3]});
  EXPECT_EQ(inputs.benches, benches);
  EXPECT_EQ(inputs.results, results);
}

TEST(FigureInputs, ATasksFileSaysWhatItIs) {
  const ScratchFolder folder;
  for (const std::string format : {"attest-tasks", "attention-study"}) {
    const std::string path = folder.file(format);
    {
      const hdf5::Lock lock;
      test::own(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    }
    test::Edit(path).text("/", "format", format);
  }
  const FigureInputs inputs = split_inputs({folder.file("attention-study"), folder.file("attest-tasks")});
  EXPECT_EQ(inputs.tasks, Names{folder.file("attest-tasks")});
  EXPECT_EQ(inputs.results, Names{folder.file("attention-study")});
}

TEST(FigureInputs, APipeIsNotOpened) {
  const ScratchFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(split_inputs({pipe}).results, Names{pipe});
}

}  // namespace
}  // namespace attest
