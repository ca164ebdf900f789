// Patterns of tensor names, for example "layers.{l}.k" or "{s}/layers/{l}/q".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

struct NameMatch {
  std::optional<int> layer;           ///< from {l}: a decimal number
  std::optional<std::string> sample;  ///< from {s}: one character or more, none of them '/'
};

/// Text with at most one hole {l} and at most one {s}; a name must fit it from the first to the last character.
class NamePattern {
 public:
  /// Throws UsageError for another hole, a hole twice, or two holes with nothing between them.
  explicit NamePattern(std::string text);

  /// Empty when the name does not fit, or is longer than kLongestName (the search takes the square of its length).
  /// Where several ways fit, the first hole is as short as can be.
  std::optional<NameMatch> match(std::string_view name) const;

  static constexpr std::size_t kLongestName = 4096;

  const std::string& text() const { return text_; }

 private:
  struct Hole {
    char kind = 'l';
    std::string after;  ///< literal text behind it
  };
  bool match_holes(std::size_t hole, std::string_view rest, NameMatch& match) const;

  std::string text_;
  std::string before_;  ///< literal text before the first hole
  std::vector<Hole> holes_;
};

}  // namespace attest
