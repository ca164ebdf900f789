// attest list: selectors, metrics and experiments; with NAME all of one of them.
#include <iostream>
#include <memory>
#include <string>

#include "dumps/base/json.h"
#include "experiments/commands/commands.h"
#include "experiments/list/catalogue.h"

namespace attest {
namespace {

void run_list(const std::string& name, const GlobalOptions& global) {
  const Json all = catalogue();
  if (name.empty()) {
    std::cout << (global.json ? all.dump(2) + "\n" : catalogue_text(all));
  } else {
    const Json entry = catalogue_entry(all, name);
    std::cout << (global.json ? entry.dump(2) + "\n" : entry_text(entry));
  }
}

}  // namespace

void add_list(Command& program, const GlobalOptions& global) {
  auto name = std::make_shared<std::string>();
  Command& command =
      program.add_command("list", "Selectors, their options, defaults and sources; metrics; experiments");
  command.option("name", *name, "Of a selector, metric or experiment: prints all of it").type("NAME");
  command.on_run([name, &global] { run_list(*name, global); });
}

}  // namespace attest
