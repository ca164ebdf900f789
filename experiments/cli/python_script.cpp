// exec_script by execv.
#include "experiments/cli/python_script.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "dumps/base/error.h"
#include "dumps/base/machine_limits.h"
#include "experiments/cli/version.h"

namespace attest {

void exec_script(const std::string& interpreter, const std::string& script, const std::vector<std::string>& arguments) {
  const std::string path = source_dir() + "/" + script;
  if (::access(path.c_str(), R_OK) != 0)
    throw OutputError(fmt::format("{}: cannot be run ({})", path, std::strerror(errno)));
  constexpr int kDescriptors = 8;  // Python reads its modules before it can tell of an error
  require_descriptors(script, kDescriptors);
  // -B: ./attest would take bytecode files beside the sources for changes. utf8: the locale has no influence.
  std::vector<std::string> words{interpreter, "-B", "-X", "utf8", path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // SIGINT, SIGTERM and SIGHUP stay blocked until the script handles them
  ::execv(interpreter.c_str(), pointers.data());
  throw OutputError(
      fmt::format("{}: cannot be started ({}); cmake/setup.sh, which ./attest runs, makes a .venv with it", interpreter,
                  std::strerror(errno)));
}

}  // namespace attest
