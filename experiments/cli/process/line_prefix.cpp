// The prefix of this process.
#include "experiments/cli/process/line_prefix.h"

namespace attest {
namespace {

std::string& prefix() {
  static std::string text;
  return text;
}

}  // namespace

const std::string& line_prefix() { return prefix(); }
void set_line_prefix(const std::string& text) { prefix() = text; }

}  // namespace attest
