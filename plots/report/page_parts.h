// The page's own files (page.html, page.css, *.js), which the build puts into the program: cmake/embed_page.cmake.
#pragma once

#include <string_view>

namespace attest {

struct PageParts {
  std::string_view html;  ///< with {{slots}}
  std::string_view style;
  std::string_view style_hash;  ///< "sha256-...", for the page's Content-Security-Policy
  std::string_view script;      ///< all scripts in one
  std::string_view script_hash;
};
const PageParts& page_parts();

}  // namespace attest
