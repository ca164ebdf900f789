// The parts of a page of HTML (findings, tables and figures in sections), and functions that write them as HTML. All
// text is shown as it is: nothing of it is taken for markup.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plots/code.h"
#include "plots/table.h"

namespace attest {

/// How much a finding matters.
enum class Severity : std::uint8_t { good, note, warning, serious };
/// "good", ...
std::string_view name_of(Severity severity);

struct NamedText {
  std::string name, text;
};

/// A sentence that the data say.
struct PageFinding {
  Severity severity = Severity::note;
  std::string text;
  std::string number = {};  ///< the number that matters most, as shown beside the sentence; empty: none
  std::string link = {};    ///< what the address has after '#': a section's id, or what a script knows; empty: none
};

struct PageFigure {
  std::string title;
  std::string caption;
  std::string svg;  ///< the picture; empty: it could not be drawn
};

struct PageTable {
  std::string title;
  Table table;
  bool open = true;  ///< false: folded until the reader asks for it
};

struct PageSection {
  std::string id = {};  ///< letters, digits, '-' and '_'
  std::string title = {};
  std::string note = {};  ///< a line beneath the title
  std::vector<PageFinding> findings = {};
  std::vector<PageFigure> figures = {};
  std::vector<PageTable> tables = {};
};

/// Names and their texts, as a list of definitions.
Html facts_html(const std::vector<NamedText>& facts);
/// The `first` findings, and the others folded.
Html findings_html(const std::vector<PageFinding>& findings, std::size_t first);
Html sections_html(const std::vector<PageSection>& sections);
/// Long texts, each folded under its name.
Html folded_html(const std::vector<NamedText>& texts);

/// Replaces each {{slot}} of `page` by its text. What a text contains is not looked at again.
Html filled(const Html& page, const std::map<std::string_view, Html>& slots);

/// JSON text as it may stand in a script element: every '<' is escaped, so that none ends the element.
Html json_in_script(std::string_view json);

}  // namespace attest
