// Benches are told from results by name and by first character, answers to tasks by what their file says.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "experiments/cli/options/results_arguments.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

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
