// Tells benches and tasks from results.
#include "experiments/cli/figure_inputs.h"

#include <cctype>
#include <filesystem>
#include <fstream>

#include "analysis/outcomes/tasks_file.h"

namespace attest {
namespace {

bool begins_like_json(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // to open a pipe may wait for ever
  std::ifstream file(path, std::ios::binary);
  char first = 0;
  return file.get(first) &&
         (first == '{' || (std::isspace(static_cast<unsigned char>(first)) && file >> first && first == '{'));
}

}  // namespace

FigureInputs split_inputs(const std::vector<std::string>& paths) {
  FigureInputs inputs;
  for (const std::string& path : paths) {
    const bool bench = path.ends_with(".json") || begins_like_json(path);
    (bench ? inputs.benches : is_tasks_file(path) ? inputs.tasks : inputs.results).push_back(path);
  }
  return inputs;
}

}  // namespace attest
