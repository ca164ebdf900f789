#include "experiments/cli/python_script.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dumps/base/error.h"
#include "experiments/cli/version.h"

namespace attest {

void become_script(const std::string& interpreter, const std::string& script,
                   const std::vector<std::string>& arguments) {
  const std::string path = source_dir() + "/" + script;
  if (::access(path.c_str(), R_OK) != 0)
    throw OutputError(fmt::format("{}: cannot be run ({})", path, std::strerror(errno)));
  // -B: bytecode beside the sources would be a change of them to ./attest. utf8: whatever the locale says.
  std::vector<std::string> words{interpreter, "-B", "-X", "utf8", path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(interpreter.c_str(), pointers.data());
  throw OutputError(
      fmt::format("{}: cannot be started ({}); cmake/setup.sh, which ./attest runs, makes a .venv with it", interpreter,
                  std::strerror(errno)));
}

}  // namespace attest
