// Text files of figures and tables.
#pragma once

#include <filesystem>
#include <string_view>

namespace attest {

/// Writes a file with `text`, in the place of one that is there. Throws std::system_error with the file's name, without
/// its folder, when it cannot be written; part of it may be there then.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace attest
