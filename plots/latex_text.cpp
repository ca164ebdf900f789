// Escapes characters that LaTeX gives a meaning, and names signs that its fonts lack.
#include "plots/latex_text.h"

#include <array>
#include <string_view>
#include <utility>

namespace attest {
namespace {

using Replacement = std::pair<std::string_view, std::string_view>;
constexpr std::array<Replacement, 27> kReplacements = {{{"\\", "\\textbackslash{}"},
                                                        {"~", "\\textasciitilde{}"},
                                                        {"^", "\\textasciicircum{}"},
                                                        {"<", "$<$"},
                                                        {">", "$>$"},
                                                        {"|", "$|$"},
                                                        {"&", "\\&"},
                                                        {"%", "\\%"},
                                                        {"$", "\\$"},
                                                        {"#", "\\#"},
                                                        {"_", "\\_"},
                                                        {"{", "\\{"},
                                                        {"}", "\\}"},
                                                        {"\n", " "},
                                                        {"\r", " "},
                                                        {"α", "$\\alpha$"},
                                                        {"δ", "$\\delta$"},
                                                        {"λ", "$\\lambda$"},
                                                        {"ρ", "$\\rho$"},
                                                        {"σ", "$\\sigma$"},
                                                        {"≥", "$\\ge$"},
                                                        {"≤", "$\\le$"},
                                                        {"−", "$-$"},
                                                        {"×", "$\\times$"},
                                                        {"–", "--"},
                                                        {"…", "\\ldots{}"},
                                                        {"·", "$\\cdot$"}}};

}  // namespace

std::string latex_text(const std::string& text) {
  std::string escaped;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const Replacement* found = nullptr;
    for (const Replacement& replacement : kReplacements)
      if (rest.starts_with(replacement.first)) found = &replacement;
    escaped += found ? found->second : rest.substr(0, 1);
    at += found ? found->first.size() : 1;
  }
  return escaped;
}

}  // namespace attest
