// Arguments of the command line that have a grammar: selectors with options, and grids of settings.
#include <cmath>
#include <limits>
#include <set>

#include "experiments/cli/options/grid.h"
#include "experiments/cli/options/selector_grids.h"
#include "kernels/selectors/registry.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/text_mutation.h"

namespace attest::fuzz {
namespace {

/// As main prints it. A sentence quotes what was typed, however long that is.
template <class Read>
Outcome outcome_of_argument(std::string_view named, Read&& read) {
  const auto read_and_print = [&] {
    try {
      read();
    } catch (const UsageError& error) {
      throw UsageError(printable(error.what()));
    }
  };
  return outcome_of(named, read_and_print, std::numeric_limits<std::size_t>::max());
}

constexpr std::string_view kSelectorWords[]{":",
                                            "=",
                                            ",",
                                            "ffd",
                                            "quest",
                                            "imported",
                                            "bits=4",
                                            "sub_block=128",
                                            "gqa=union",
                                            "per_head",
                                            "dense_layers=2",
                                            "page=16",
                                            "rule=topp",
                                            "path=c.json",
                                            "dataset=x",
                                            "file=",
                                            "sink=4",
                                            "local=64",
                                            "a=",
                                            "/",
                                            "scores",
                                            "block=",
                                            "%",
                                            "-1"};

class SelectorTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    std::string text(any_of(random, all_selectors())->name);
    for (std::uint64_t times = random.below(3), i = 0; i < times; ++i) {
      text += i == 0 ? ":" : ",";
      text += any_of(random, kSelectorWords);
    }
    if (random.below(3) == 0) text = "label=" + text;
    return mutated_text(std::move(text), kSelectorWords, random);
  }

  Outcome read(const std::string& input) override {
    return outcome_of_argument("", [&] {
      const SelectorSpec spec = parse_selector(input);
      require(!spec.label.empty() && !spec.name.empty(), "a selector without a name");
      require(spec.label.find('/') == std::string::npos, "a label that cannot name a group");
      require(make_selector(spec)->name() == spec.name, "another selector");
    });
  }
};

constexpr std::string_view kGridSeeds[]{"5,7",       "1:12:0.5",  "1024,25%,inf", "0.1:0.9:0.1",
                                        "1%:99%:1%", "0.5,0.999", "1e3"};
constexpr std::string_view kGridWords[]{":",        ",", "%",    ".", "-", "e", "inf", "nan", "0.000000000000001",
                                        "1:1000:1", " ", "1e308"};

bool is_in_domain(SettingKind kind, const Setting& setting) {
  if (std::isnan(setting.value) || setting.value < 0) return false;
  if (kind == SettingKind::delta) return true;
  if (!(setting.value > 0) || std::isinf(setting.value)) return false;
  if (kind == SettingKind::budget && setting.percent) return setting.value <= 100;
  return kind != SettingKind::p || setting.value <= 1;
}

class GridTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    const char kind = static_cast<char>('0' + random.below(5));
    return kind + mutated_text(std::string(any_of(random, kGridSeeds)), kGridWords, random);
  }

  /// The first character says of which kind the settings are; '0' is a plain list of numbers.
  Outcome read(const std::string& input) override {
    if (input.empty()) return Outcome::refused;
    const std::string text = input.substr(1);
    const auto kind = static_cast<SettingKind>((static_cast<unsigned char>(input[0]) + 2) % 5);  // '0': 0
    if (kind == SettingKind::none) {
      return outcome_of_argument("--lambdas: ", [&] {
        const std::vector<double> numbers = parse_numbers(text, "--lambdas");
        require(!numbers.empty() && std::set(numbers.begin(), numbers.end()).size() == numbers.size(), "numbers");
        for (const double number : numbers) require(std::isfinite(number) && number >= 0, "a number out of range");
      });
    }
    return outcome_of_argument(fmt::format("--{}: ", name_of(kind)), [&] {
      const Grid grid = parse_grid(kind, text);
      require(!grid.settings.empty() && grid.settings.size() == grid.labels.size(), "as many labels as settings");
      require(grid.settings.size() <= 2000, "more settings than are allowed");
      for (const Setting& setting : grid.settings) require(is_in_domain(kind, setting), "a setting out of its domain");
    });
  }
};

}  // namespace

const TargetInfo kSelectorTarget{"selector", ".txt", 4'000,
                                 [] { return std::unique_ptr<FuzzTarget>(new SelectorTarget); }};
const TargetInfo kGridTarget{"grid", ".txt", 20'000, [] { return std::unique_ptr<FuzzTarget>(new GridTarget); }};

}  // namespace attest::fuzz
