// Reads the attribute in a guarded child process: the file is untrusted.
#include "dumps/format/file_format.h"

#include <span>

#include "dumps/base/input_file.h"
#include "dumps/hdf5/guarded_child.h"
#include "dumps/hdf5/node.h"

namespace attest {

std::string file_format(const std::string& path) {
  const InputFile file(path);
  const ChildLimits limits = metadata_limits(file.stored_bytes());
  std::string format;
  run_in_guarded_child(
      path, limits,
      [&](ChildOutput& out) {
        const hdf5::Group root = hdf5::root_of(hdf5::open_file(file));
        if (!root.has_attribute("format")) return;
        const std::string found = root.string_attribute("format");
        out.write(std::as_bytes(std::span(found)));
      },
      [&](ChildInput& in) { format = in.read_all(limits.memory_bytes); });
  return format;
}

}  // namespace attest
