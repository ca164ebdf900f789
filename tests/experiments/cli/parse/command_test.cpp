// Command: values reach their variables, lists and repeated options, what is given, what is refused.
#include "experiments/cli/parse/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using ::testing::ElementsAre;

struct Values {
  std::string text = "t", joined;
  int whole = 0;
  std::int64_t long_whole = 0;
  std::uint64_t seed = 0;
  double real = 0;
  std::optional<double> maybe;
  std::vector<std::string> names, inputs;
  std::vector<int> wholes = {1, 2};
  std::vector<std::int64_t> long_wholes;
  std::vector<double> reals;
  bool flag = false;
};

/// A program with two commands, of which "do" has every kind of option.
struct Program {
  Values values;
  Command root{"attest", "of a test"};
  Command& act = root.add_command("do", "what is tested");
  Command& other = root.add_command("other", "takes nothing");
  std::string ran;

  Program() {
    root.requires_command();
    root.option("--common", values.seed, "for all").takes(seed_number());
    act.option("INPUT", values.inputs, "inputs");
    act.option("-t,--text", values.text, "text");
    act.option("--joined", values.joined, "adds up").joined();
    act.option("--whole", values.whole, "whole").takes(whole_number(0, 9));
    act.option("--long", values.long_whole, "long").takes(whole_number(0));
    act.option("--real", values.real, "real").takes(share_of_one());
    act.option("--maybe", values.maybe, "perhaps").takes(nonnegative_number());
    act.option("--name", values.names, "names").one_each_time();
    act.option("--wholes", values.wholes, "wholes").separated().takes(whole_number(0, 9));
    act.option("--longs", values.long_wholes, "longs").separated().takes(whole_number(0));
    act.option("--reals", values.reals, "reals").separated().takes(share_of_one());
    act.flag("--flag", values.flag, "flag");
    act.on_run([this] { ran = "do"; });
    other.on_run([this] { ran = "other"; });
  }

  std::string refusal(const std::vector<std::string>& words) {
    return message_of<UsageError>([&] { root.parse(words); });
  }
};

TEST(Command, ValuesReachTheirVariables) {
  Program program;
  program.root.parse({"do", "a", "--common", "18446744073709551615", "-t", "x", "--whole", "007", "--long=8", "--real",
                      "50%", "--maybe", "0.25", "--flag", "b"});
  const Values& values = program.values;
  EXPECT_THAT(values.inputs, ElementsAre("a", "b"));
  EXPECT_EQ(values.text, "x");
  EXPECT_EQ(values.whole, 7);
  EXPECT_EQ(values.long_whole, 8);
  EXPECT_EQ(values.seed, UINT64_MAX);
  EXPECT_EQ(values.real, 0.5);
  EXPECT_EQ(values.maybe, 0.25);
  EXPECT_TRUE(values.flag);
  EXPECT_THAT(values.wholes, ElementsAre(1, 2)) << "what is not given stays";
  EXPECT_TRUE(program.act.gives("--text"));
  EXPECT_FALSE(program.act.gives("--joined"));
  EXPECT_EQ(program.ran, "");
  program.root.run();
  EXPECT_EQ(program.ran, "do");
}

TEST(Command, ListsAndRepeatedOptions) {
  Program program;
  program.root.parse({"do", "--joined", "1", "--joined", "5,7", "--name", "a,b", "--name", "c", "d", "--wholes", "3,4",
                      "5", "--longs", "6", "--reals", "10%,1"});
  const Values& values = program.values;
  EXPECT_EQ(values.joined, "1,5,7");
  EXPECT_THAT(values.names, ElementsAre("a,b", "c"));
  EXPECT_THAT(values.inputs, ElementsAre("d"));
  EXPECT_THAT(values.wholes, ElementsAre(3, 4, 5));
  EXPECT_THAT(values.long_wholes, ElementsAre(6));
  EXPECT_THAT(values.reals, ElementsAre(0.1, 1));
}

TEST(Command, TextsAreTakenAsGiven) {
  const ScratchFolder folder;
  Program program;
  program.root.config_file("--config", "a file");
  const std::string path = folder.write("c.toml", "[do]\njoined = [\"a\\nb\", \"c\"]\n");
  program.root.parse({"do", "in\nput", "-t", "x\ny,z", "--name", "n\nm", "--config", path});
  EXPECT_EQ(program.values.text, "x\ny,z");
  EXPECT_EQ(program.values.joined, "a\nb,c");
  EXPECT_THAT(program.values.inputs, ElementsAre("in\nput"));
  EXPECT_THAT(program.values.names, ElementsAre("n\nm"));

  Program one, of_file;
  one.root.parse({"do", "--joined", "a\nb"});
  EXPECT_EQ(one.values.joined, "a\nb");
  of_file.root.config_file("--config", "a file");
  of_file.root.parse({"do", "--config", folder.write("t.toml", "[do]\ntext = \"a\\nb.h5\"\n")});
  EXPECT_EQ(of_file.values.text, "a\nb.h5");
}

TEST(Command, EmptyItemsOfAListAreRefused) {
  for (const char* list : {"3,,4", "3,", ",3", ","})
    EXPECT_EQ(Program().refusal({"do", "--wholes", list}),
              "--wholes: '' is not a whole number from 0 to 9; see 'attest do --help'")
        << list;
  EXPECT_EQ(Program().refusal({"do", "--wholes=3,x,4"}),
            "--wholes: 'x' is not a whole number from 0 to 9; see 'attest do --help'");
  Program program;
  program.root.parse({"do", "--name", "a,,b", "--wholes", "03,4", "5"});
  EXPECT_THAT(program.values.names, ElementsAre("a,,b")) << "commas do not separate names";
  EXPECT_THAT(program.values.wholes, ElementsAre(3, 4, 5));
}

TEST(Command, RefusesInASentence) {
  EXPECT_EQ(Program().refusal({}), "no command was given; 'attest --help' lists them");
  EXPECT_EQ(Program().refusal({"od"}), "unknown command 'od'; nearest: 'do' or 'other'");
  EXPECT_EQ(Program().refusal({"do", "--whole", "10"}),
            "--whole: '10' is not a whole number from 0 to 9; see 'attest do --help'");
  EXPECT_EQ(Program().refusal({"do", "--text"}), "--text: the value is missing, expected TEXT; see 'attest do --help'");
  EXPECT_EQ(Program().refusal({"do", "-t", "a", "-t", "b"}),
            "--text: given 2 times, expected once; see 'attest do --help'");
  EXPECT_EQ(Program().refusal({"do", "--flag=1"}), "--flag: takes no value, found '1'");
  EXPECT_EQ(Program().refusal({"other", "a"}), "unexpected argument 'a'; see 'attest other --help'");
}

TEST(Command, HandsItsWordsOver) {
  Program program;
  std::vector<std::string> words;
  program.root.add_command("script", "parses by itself").hands_over([&](const auto& own) { words = own; });
  program.root.parse({"script", "--help", "--nothing=5"});
  EXPECT_THAT(words, ElementsAre("--help", "--nothing=5"));
  program.root.parse({"--common", "1", "script", "x"});
  EXPECT_THROW(program.root.run(), UsageError);
}

TEST(Command, TheFileOfConfigFillsWhatIsNotGiven) {
  const ScratchFolder folder;
  const std::string path =
      folder.write("c.toml", "common = 3\n[do]\nwhole = 4\nwholes = [5, 6]\njoined = ['a', 'b']\nflag = true\n");
  Program program;
  program.root.config_file("--config", "a file");
  program.act.on_run([] { throw UsageError("--wholes: 5 is odd"); });
  program.root.parse({"do", "--config", path, "--whole", "1"});
  EXPECT_EQ(program.values.seed, 3U);
  EXPECT_EQ(program.values.whole, 1);
  EXPECT_THAT(program.values.wholes, ElementsAre(5, 6));
  EXPECT_EQ(program.values.joined, "a,b");
  EXPECT_TRUE(program.values.flag);
  EXPECT_EQ(message_of<UsageError>([&] { program.root.run(); }), path + ", line 4: --wholes: 5 is odd");
}

TEST(Command, AnOptionMayHaveASecondName) {
  const ScratchFolder folder;
  const std::string file = folder.write("c.toml", "[do]\nsecond = 'x'\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"do", "--first", "x"}, {"do", "--second=x"}, {"do", "--config", file}}) {
    Program program;
    std::string text;
    program.root.config_file("--config", "a file");
    program.act.option("--first,--second", text, "a text").takes(one_of({"x", "y"}));
    program.root.parse(words);
    EXPECT_EQ(text, "x");
    EXPECT_TRUE(program.act.gives("--first"));
    EXPECT_THAT(program.refusal({"do", "--second", "z"}), testing::StartsWith("--first: 'z' is not one of x, y"));
  }
}

TEST(Command, AFlagThatTheFileOfConfigSetsToFalseIsNotGiven) {
  const ScratchFolder folder;
  for (const bool value : {false, true}) {
    Program program;
    program.root.config_file("--config", "a file");
    program.root.parse({"do", "--config", folder.write("c.toml", value ? "[do]\nflag = true" : "[do]\nflag = false")});
    EXPECT_EQ(program.act.gives("--flag"), value);
    EXPECT_EQ(program.values.flag, value);
  }
}

}  // namespace
}  // namespace attest
