// attest list: selectors, metrics and experiments; with NAME all of one of them.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "experiments/commands/catalogue.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

void run_list(const std::string& name, const GlobalOptions& global) {
  const nlohmann::ordered_json all = catalogue();
  if (name.empty()) {
    std::cout << (global.json ? all.dump(2) + "\n" : catalogue_text(all));
  } else {
    const nlohmann::ordered_json entry = catalogue_entry(all, name);
    std::cout << (global.json ? entry.dump(2) + "\n" : entry_text(entry));
  }
}

}  // namespace

void add_list(CLI::App& app, const GlobalOptions& global) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("list", "Selectors, their options, defaults and sources; metrics; experiments");
  command->add_option("name", *name, "Of a selector, metric or experiment: prints all of it")->type_name("NAME");
  command->callback([name, &global] { run_list(*name, global); });
}

}  // namespace attest
