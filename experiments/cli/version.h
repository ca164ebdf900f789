// Versions of this program, of its libraries and of the GPUs.
#pragma once

#include <string>

namespace attest {

struct Version {
  std::string program;     ///< "0.1.0"
  std::string git_commit;  ///< of the sources, with "-dirty" if they were changed
};
Version program_version();

/// "2.11.0"; empty: not in this build.
std::string libtorch_version();

/// The folder of the sources that this program was built from.
std::string source_dir();

/// Path of the Python interpreter that the build was configured with. It runs the scripts of dumps/.
std::string python_interpreter();

/// For --version: the program, the versions of LibTorch, CUDA and HDF5, and the GPUs, one per line.
std::string version_report();

}  // namespace attest
