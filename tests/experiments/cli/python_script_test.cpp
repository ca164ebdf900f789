#include "experiments/cli/python_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "experiments/cli/version.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using testing::StartsWith;

std::string refusal(const std::string& interpreter, const std::string& script) {
  return message_of<OutputError>([&] { become_script(interpreter, script, {}); });
}

TEST(PythonScript, what_is_missing_is_one_sentence) {
  EXPECT_THAT(refusal("/no/such/python", "dumps/import/import_arrays.py"),
              StartsWith("/no/such/python: cannot be started (No such file or directory); cmake/setup.sh"));
  EXPECT_EQ(refusal(python_interpreter(), "dumps/import/absent.py"),
            source_dir() + "/dumps/import/absent.py: cannot be run (No such file or directory)");
}

}  // namespace
}  // namespace attest
