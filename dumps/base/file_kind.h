// What a path names, in the words of messages.
#pragma once

#include <string>

namespace attest {

/// "a folder", "a pipe", "a device", "a socket", "a file"; "something else" if that cannot be known.
const char* kind_of_file(const std::string& path);

}  // namespace attest
