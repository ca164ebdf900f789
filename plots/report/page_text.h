// Text as it may stand in a page: nothing of it is taken for markup.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace attest {

/// For element content and for attributes in double quotes.
std::string html_text(std::string_view text);

/// JSON text as it may stand in a script element: every '<' is escaped, so that none ends the element.
std::string json_in_script(std::string json);

std::string base64(std::string_view bytes);

}  // namespace attest
