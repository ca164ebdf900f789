// The configuration file of --config: its text, and its entries against the options of every command.
#include <set>
#include <span>

#include "dumps/base/content_hash.h"
#include "experiments/cli/options/global_options.h"
#include "experiments/cli/parse/command.h"
#include "experiments/cli/parse/config_text.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/text_mutation.h"

namespace attest::fuzz {
namespace {

constexpr std::string_view kSeeds[]{
    "# a study\nthreads = 2\nquiet = true\n\n[run]\nselector = [\"ffd:bits=4\", 'quest']\ndelta = \"1:12:0.5\"\n"
    "budget = \"64,25%\"\nlayers = \"0-3\"\nresume = false\n",
    "[bench.study]\nrepeats = 3 # of each\n[inspect]\ncheck = true\n[figures]\nonly = [\n  \"layer_sparsity\",\n]\n",
    "bench.kernels.repeats = 1\n\"seed\" = +5\n[import]\nscale = 0.125\nlayout = 'HTD'\npositions = [1, 2, 3]\n",
    "[synth]\ntokens = 64\nlayers = 2\n"};
constexpr std::string_view kWords[]{"[",
                                    "]",
                                    "[[",
                                    "]]",
                                    "=",
                                    "\"",
                                    "'",
                                    "\"\"\"",
                                    "#",
                                    "\n",
                                    "\r\n",
                                    ",",
                                    ".",
                                    "\\",
                                    "\\q",
                                    "[run]\n",
                                    "a.a.",
                                    "a = 1\n",
                                    "delta = 5\n",
                                    "selector = ",
                                    "threads",
                                    "bench",
                                    "study",
                                    "true",
                                    "[1, 2]",
                                    " ",
                                    "\xEF\xBB\xBF",
                                    "[a.b.c.d.e.f.g.h]\n",
                                    "config = \"x\"\n",
                                    "help = true\n",
                                    "version = true\n"};

void check_entries(const std::vector<ConfigEntry>& entries) {
  std::set<std::pair<std::vector<std::string>, std::string>> keys;
  int line = 1;
  for (const ConfigEntry& entry : entries) {
    require(entry.line >= line, "entries go back by lines");
    line = entry.line;
    require(entry.section.size() <= 64, "a section of many parts");
    require(entry.is_list || entry.values.size() == 1, "one value");
    require(keys.emplace(entry.section, entry.key).second, "a key that is there twice");
  }
}

class ConfigTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    return mutated_text(std::string(any_of(random, kSeeds)), kWords, random);
  }

  Outcome read(const std::string& input) override {
    const Outcome outcome = outcome_of("c.toml, line ", [&] { check_entries(parse_config(input, "c.toml")); });
    // A command line takes a thousand times as long as a text. Which inputs get one depends on the input alone.
    if (hash_of(std::as_bytes(std::span(input))) % 64 == 0) read_with_options(input);
    return outcome;
  }

 private:
  /// Options of every kind, of commands none of which runs.
  void read_with_options(const std::string& input) {
    const std::string path = folder_.write("c.toml", input);
    Command program("attest", "");
    program.requires_command();
    GlobalOptions global;
    add_global_options(program, global);
    int repeats = 0;
    double scale = 0;
    bool resume = false, check = false;
    std::string delta, layers, layout;
    std::vector<std::string> selectors, only;
    Command& run = program.add_command("run", "");
    run.option("--selector", selectors, "");
    run.option("--delta", delta, "");
    run.option("--layers", layers, "").takes(file_name());
    run.flag("--resume", resume, "");
    program.add_command("inspect", "").flag("--check", check, "");
    program.add_command("figures", "").option("--only", only, "").separated().takes(one_of({"layer_sparsity", "a"}));
    Command& bench = program.add_command("bench", "");
    bench.requires_command();
    for (const char* const name : {"study", "kernels"})
      bench.add_command(name, "").option("--repeats", repeats, "").takes(whole_number(1, 100));
    Command& import = program.add_command("import", "");
    import.option("--scale", scale, "").takes(nonnegative_number());
    import.option("--layout", layout, "").takes(one_of({"HTD", "THD"}));
    program.add_command("list", "");
    outcome_of(path, [&] {
      try {
        program.parse({"--config", path, "list"});
      } catch (const UsageError& error) {
        throw UsageError(printable(error.what()));  // as main does: it quotes values as they were typed
      }
    });
  }

  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kConfigTarget{"config", ".toml", 20'000, [] { return std::unique_ptr<FuzzTarget>(new ConfigTarget); }};

}  // namespace attest::fuzz
