// Versions and paths of this build. cmake/version.cmake defines ATTEST_VERSION, ATTEST_GIT_COMMIT, ATTEST_SOURCE_DIR,
// ATTEST_PYTHON and ATTEST_LIBTORCH_VERSION for this source only.
#include "experiments/cli/process/version.h"

#include <fmt/core.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#if ATTEST_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include "analysis/layer/device.h"
#include "dumps/hdf5/version.h"

namespace attest {
namespace {

const std::string kSources = ATTEST_SOURCE_DIR;  // empty in a build that is installed

std::string cuda_version() {
#if ATTEST_HAS_CUDA
  const auto text = [](int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); };
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return text(CUDART_VERSION) + ", no driver";
  return fmt::format("{}, driver for {}", text(CUDART_VERSION), text(driver));
#else
  return "not in this build";
#endif
}

}  // namespace

Version program_version() { return {ATTEST_VERSION, ATTEST_GIT_COMMIT}; }

std::string libtorch_version() {
  const std::string version = ATTEST_LIBTORCH_VERSION;
  return version.empty() || std::isdigit(static_cast<unsigned char>(version[0])) == 0 ? std::string() : version;
}

std::string package_folder() {
  if (!kSources.empty()) return kSources + "/experiments/python/attest";
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().string();
}

std::string demo_folder() { return kSources.empty() ? package_folder() + "/dumps" : kSources + "/dumps"; }

std::string python_interpreter() {
  const char* named = kSources.empty() ? std::getenv("ATTEST_PYTHON") : ATTEST_PYTHON;
  return named == nullptr ? "python3" : named;
}

std::string version_report() {
  const Version version = program_version();
  std::string report = fmt::format("attest {} ({})\nLibTorch {}\nCUDA {}\nHDF5 {}\n", version.program,
                                   version.git_commit, ATTEST_LIBTORCH_VERSION, cuda_version(), hdf5_version());
  const auto [gpus, fault] = visible_gpus();
  if (gpus.empty()) report += fmt::format("GPU none{}\n", fault.empty() ? "" : ": " + fault);
  for (const Gpu& gpu : gpus) report += fmt::format("GPU {} (sm_{}{})\n", gpu.name, gpu.major, gpu.minor);
  report.pop_back();  // CLI11 adds a line break
  return report;
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

}  // namespace attest
