# Script (cmake -P): writes OUT, a C++ source with the page of attest report: HTML, STYLE and the SCRIPTS (separated
# by "|"), which become one, in this order. A browser runs only what has the hashes in the page.
function(base64_of_hex hex out)
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(APPEND hex "00") # 256 bits are 42 groups of 6 and 4 bits
  set(text "")
  foreach(begin RANGE 0 63 3)
    string(SUBSTRING "${hex}" ${begin} 3 three)
    math(EXPR high "0x${three} >> 6")
    math(EXPR low "0x${three} & 63")
    string(SUBSTRING "${digits}" ${high} 1 first)
    string(SUBSTRING "${digits}" ${low} 1 second)
    string(APPEND text "${first}${second}")
  endforeach()
  string(SUBSTRING "${text}" 0 43 text)
  set(${out} "${text}=" PARENT_SCOPE)
endfunction()

# A C++ expression for a text of any length: string literals of at most 10,000 characters.
function(literals text out)
  set(code "")
  string(LENGTH "${text}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 10000 piece)
    string(APPEND code "\n    R\"page(${piece})page\"")
    math(EXPR at "${at} + 10000")
  endwhile()
  set(${out} "${code}" PARENT_SCOPE)
endfunction()

file(READ ${HTML} html)
file(READ ${STYLE} style)
set(script "(() => {\n\"use strict\";\n")
string(REPLACE "|" ";" SCRIPTS "${SCRIPTS}")
foreach(name ${SCRIPTS})
  file(READ ${name} text)
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")

foreach(part style script)
  string(SHA256 hash "${${part}}")
  base64_of_hex(${hash} ${part}_hash)
endforeach()
literals("${html}" html)
literals("${style}" style)
literals("${script}" script)
file(WRITE ${OUT}.new "// Made by cmake/embed_page.cmake.
#include \"experiments/report/page_parts.h\"

namespace attest {

const PageParts& page_parts() {
  static const PageParts parts{
    ${html},
    ${style},
    \"sha256-${style_hash}\",
    ${script},
    \"sha256-${script_hash}\"};
  return parts;
}

}  // namespace attest
")
file(RENAME ${OUT}.new ${OUT})
