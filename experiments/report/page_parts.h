// The page's own files (page/), which the build puts into the program: cmake/embed_page.cmake.
#pragma once

#include "plots/code.h"

namespace attest {

struct PageParts {
  Html html;  ///< with {{slots}}
  Html style;
  Html style_hash;  ///< "sha256-...", for the page's Content-Security-Policy
  Html script;      ///< all scripts in one
  Html script_hash;
};
const PageParts& page_parts();

}  // namespace attest
