// Parsing of Slurm's lists.
#include "analysis/ranks/slurm_nodes.h"

#include <charconv>

namespace attest {
namespace {

/// The number at the start of `text`, which is taken off. Empty if there is none.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view begin) {
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  return true;
}

}  // namespace

std::string first_slurm_node(std::string_view list) {
  std::string node;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] == ']') return "";
    if (list[i] != '[') {
      node += list[i];
      continue;
    }
    const std::size_t end = list.find(']', i);
    if (end == std::string_view::npos) return "";
    const std::string_view numbers = list.substr(i + 1, end - i - 1);
    const std::string_view first = numbers.substr(0, numbers.find_first_of(",-"));
    if (first.empty()) return "";
    node += first;
    i = end;
  }
  return node;
}

std::optional<int> slurm_tasks_on_node(std::string_view list, int node) {
  for (;;) {
    const std::optional<int> tasks = take_number(list);
    if (!tasks) return std::nullopt;
    int nodes = 1;
    if (take(list, "(x")) {
      const std::optional<int> repeated = take_number(list);
      if (!repeated || !take(list, ")")) return std::nullopt;
      nodes = *repeated;
    }
    if (node < nodes) return tasks;
    node -= nodes;
    if (!take(list, ",")) return std::nullopt;
  }
}

}  // namespace attest
