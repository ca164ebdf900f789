// Versions of this program, of its libraries and of the GPUs; its paths and its command line.
#pragma once

#include <string>
#include <vector>

namespace attest {

struct Version {
  std::string program;     ///< "0.1.0"
  std::string git_commit;  ///< of the sources, with "-dirty" if they were changed
};
Version program_version();

/// "2.11.0"; empty: not in this build.
std::string libtorch_version();

/// The folder of the Python package: that of the sources that this program was built from, or the one that this program
/// is installed in (as bin/attest).
std::string package_folder();

/// The folder of the demo's dumps.
std::string demo_folder();

/// The Python interpreter that runs the package: of the build; where this program is installed, the environment's
/// ATTEST_PYTHON, which the package sets, or python3.
std::string python_interpreter();

/// The text of --version: the program, the versions of LibTorch, CUDA and HDF5, and the GPUs, one per line.
std::string version_report();

/// The program's name and its arguments.
std::vector<std::string> command_line();

}  // namespace attest
