// What this program is made of and runs on.
#pragma once

#include <string>

namespace attest {

struct Version {
  std::string program;     ///< "0.1.0"
  std::string git_commit;  ///< of the sources, "-dirty" if they differ from it
};
Version program_version();

/// The folder of the sources that this program was built from.
std::string source_dir();

/// The path of the interpreter that it was configured with, which runs the scripts of dumps/.
std::string python_interpreter();

/// For --version: the program, the versions of LibTorch, CUDA and HDF5, and the GPUs, one per line.
std::string version_report();

}  // namespace attest
