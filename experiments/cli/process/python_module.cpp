// exec_module by execvp.
#include "experiments/cli/process/python_module.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "dumps/base/error.h"
#include "dumps/base/machine_limits.h"
#include "dumps/base/printable.h"
#include "experiments/cli/process/gpu_connections.h"
#include "experiments/cli/process/version.h"

namespace attest {

void exec_module(const std::string& interpreter, const std::string& module, const std::vector<std::string>& arguments) {
  const std::string package = package_folder();
  if (::access(package.c_str(), R_OK) != 0)
    throw OutputError(fmt::format("{}: cannot be run ({})", package, std::strerror(errno)));
  constexpr int kDescriptors = 8;  // Python reads its modules before it can tell of an error
  require_descriptors(module, kDescriptors);
  const char* others = std::getenv("PYTHONPATH");
  std::string places = package.substr(0, package.rfind('/'));
  if (others != nullptr && *others != '\0')
    places += ":" + std::string(others);  // an empty place: the working directory
  ::setenv("PYTHONPATH", places.c_str(), 1);
  restore_gpu_connections();
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) ::setenv("ATTEST_BIN", program.c_str(), 1);  // modules that start the program start this one
  // -B: ./attest would take bytecode files beside the sources for changes. -P: the working directory holds no modules.
  // utf8: the locale has no influence.
  std::vector<std::string> words{interpreter, "-B", "-P", "-X", "utf8", "-m", module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // SIGINT, SIGTERM and SIGHUP stay blocked until the module handles them
  ::execvp(interpreter.c_str(), pointers.data());
  throw OutputError(
      fmt::format("{}: cannot be started ({}); cmake/setup.sh, which ./attest runs, makes a .venv with it", interpreter,
                  std::strerror(errno)));
}

std::string request_text(const Json& request) { return request.dump(-1, JsonCharacters::ascii); }

Json provenance() {
  Json command = Json::array();
  for (const std::string& word : command_line()) command.push_back(as_utf8(word));
  return {{"command", command}, {"version", program_version().program}, {"git_commit", program_version().git_commit}};
}

void name_operator_library() {
  std::error_code error;
  const std::filesystem::path library =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "libattest_torch_ops.so";
  if (!error && std::filesystem::exists(library, error)) ::setenv("ATTEST_TORCH_OPS", library.c_str(), /*overwrite=*/0);
}

}  // namespace attest
