// Text from untrusted files, made safe for messages, terminals and JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attest {

/// `text` as valid UTF-8 on one line. Bytes that are no UTF-8 and control characters of ASCII (line breaks, terminal
/// escapes) are written as \xNN; other control characters, C1 and those that change the direction of text or separate
/// lines, as \uNNNN, beyond four digits as \UNNNNNNNN.
std::string printable(std::string_view text);

/// `text` with bytes that are no UTF-8 written as \xNN.
std::string as_utf8(std::string_view text);

/// The first `maximum` bytes of `text`, without a part of a character of UTF-8 at the end.
std::string_view cut_text(std::string_view text, std::size_t maximum);

/// printable() of at most `maximum` bytes of `text`, with "..." for the rest: a name in a file may have any length.
std::string excerpt(std::string_view text, std::size_t maximum = 200);

}  // namespace attest
