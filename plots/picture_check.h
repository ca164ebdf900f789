// Tells whether a picture file is whole. gnuplot ignores errors of writing: on a full disk it leaves a truncated
// picture and exits with 0.
#pragma once

#include <filesystem>
#include <string>

namespace attest {

/// False if the file is missing, unreadable or truncated, or if bytes in its middle are missing in a pdf or a png.
/// `format` is one of kFigureFormats; for another one std::logic_error.
bool is_whole_picture(const std::filesystem::path& file, const std::string& format);

}  // namespace attest
