// Which kind of file an HDF5 file says it is.
#pragma once

#include <string>

#include "dumps/format/format_names.h"

namespace attest {

/// The root's attribute `format`; empty if there is none. Throws InputError if the file cannot be read.
std::string file_format(const std::string& path);

}  // namespace attest
