// Benches are told from results by name and by first character.
#include "experiments/cli/figure_inputs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

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

TEST(FigureInputs, APipeIsNotOpened) {
  const ScratchFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(split_inputs({pipe}).results, Names{pipe});
}

}  // namespace
}  // namespace attest
