// Text files of figures and tables, and whether a picture is whole.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace attest {

/// Writes a file with `text`, in the place of one that is there. Throws std::system_error with the file's name, without
/// its folder, when it cannot be written; part of it may be there then.
void write_text_file(const std::filesystem::path& path, std::string_view text);

/// gnuplot ignores errors of writing: on a full disk it leaves a truncated picture and exits with 0. False if the file
/// is missing, unreadable or truncated, or if bytes in its middle are missing in a pdf or a png. `format` is one of
/// kFigureFormats; for another one std::logic_error.
bool is_whole_picture(const std::filesystem::path& file, const std::string& format);

}  // namespace attest
