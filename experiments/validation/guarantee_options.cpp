// Options of a guarantee, and of what is judged.
#include "experiments/validation/guarantee_options.h"

#include <fmt/core.h>

#include "dumps/base/error.h"
#include "experiments/cli/parse/checks.h"

namespace attest {

void add_guarantee_options(Command& command, GuaranteeOptions& options, Targets targets) {
  JudgementOptions& judgement = options.judgement;
  Option& target = command.option(
      "--target", judgement.targets,
      "What each prompt must reach, METRIC[.STAT]>=VALUE or <=VALUE; STAT of its cells: mean (the default), "
      "min, max, median, pNN; may be repeated, and all must hold");
  target.one_each_time().takes(text_that_is("a target such as recall.min>=0.999")).type("TARGET");
  const std::size_t first = command.options().size();
  command
      .option(
          "--claim", options.guarantee,
          "What is guaranteed: of prompts like these, the share that violates (prompts) or the mean deficit (mean); "
          "or what is seen in these prompts alone (observed)")
      .takes(one_of(names_in(kGuaranteeNames)))
      .shows_default()
      .type("NAME");
  command
      .option("--max-violating", judgement.guarantee.max_violating,
              "Share of prompts that may miss a target (default 10%)")
      .takes(share_of_one())
      .type("SHARE");
  command.option("--confidence", judgement.guarantee.confidence, "Of the guarantee (default 95%)")
      .takes(share_of_one())
      .type("SHARE");
  command
      .option("--bound", options.bound,
              "Of --claim mean: betting (wsr), Hoeffding-Bentkus, or the bootstrap, which certifies nothing")
      .takes(one_of(names_in(kBoundNames)))
      .shows_default()
      .type("NAME");
  command
      .option("--clip", judgement.guarantee.clip,
              "Of --claim mean: deficits count up to this (default ten times what the target allows)")
      .takes(nonnegative_number())
      .type("X");
  command
      .option("--for-length", judgement.for_length,
              "Refuse a verdict if no prompts are as long as this number of tokens")
      .takes(token_count())
      .type("N");
  command.flag("--extrapolate", judgement.extrapolate, "Guarantee for the length of --for-length all the same");
  command.option("--layers", judgement.layers, "Judge these layers: 0-31, or 0,5,8-11, or 8- (default all)")
      .takes(text_that_is("a list such as 0-31"))
      .type("LIST");
  command
      .option("--cluster", judgement.cluster,
              "Text attribute of samples, such as the document they share: prompts with the same "
              "value count once, and violate if any does")
      .takes(text_that_is("an attribute's name"))
      .type("KEY");
  if (targets == Targets::optional)
    for (std::size_t i = first; i < command.options().size(); ++i) command.options()[i]->needs(target);
}

void add_choice_options(Command& command, GuaranteeOptions& options) {
  JudgementOptions& judgement = options.judgement;
  for (const SettingKindInfo& info : kSettingKinds)
    if (info.kind != SettingKind::none)
      command
          .option(fmt::format("--{}", info.name), options.settings[info.kind],
                  fmt::format("Judge this setting, {}, instead of finding the smallest", info.valid))
          .takes(text_that_is(std::string(info.valid)))
          .type("X");
  command
      .option("--selector", options.selectors,
              "Of results its label or name (default: the only one); of dumps NAME[:option=value,...] (default ffd); "
              "may be repeated: each is judged, at its own level")
      .one_each_time()
      .takes(text_that_is("a selector"))
      .type("SELECTOR");
  command
      .option("--candidates", judgement.candidates,
              "Labels of results to choose among instead of settings, the safest first and fixed before the results "
              "were seen: exact,kv_q8,ffd@5")
      .separated()
      .takes(text_that_is("LABEL or LABEL@SETTING"))
      .type("LIST");
  command
      .option(
          "--grid", judgement.grid,
          "Settings to choose from (default: all of the results; of dumps 1:16:0.25 for delta, 0 with a settings_file)")
      .takes(text_that_is("a list such as 1:16:0.25"))
      .type("GRID");
  command.option("--per", judgement.per, "What has a setting of its own")
      .takes(one_of({"model", std::string(name_of(UnitKind::layer)), std::string(name_of(UnitKind::kv_head))}))
      .shows_default()
      .type("UNIT");
  command
      .option("--choose", judgement.choosing,
              "Share of the prompts that choose the settings of layers or KV heads; the others certify (default 50%)")
      .takes(share_of_one())
      .type("SHARE");
  command
      .option("--io-budget", judgement.io_budget,
              "Find the settings of layers or KV heads that lose least while they read this share of dense attention")
      .takes(share_of_one())
      .type("SHARE");
  command.option("--model", judgement.model, "Of results of several models")
      .takes(text_that_is("a model's name"))
      .type("NAME");
}

void check_guarantee_options(const Command& command, const GuaranteeOptions& options) {
  if (options.guarantee != "mean" && command.gives("--bound")) throw UsageError("--bound belongs to --claim mean");
  if (options.guarantee == "mean" && command.gives("--max-violating"))
    throw UsageError("--max-violating does not belong to --claim mean, which is about no share of prompts");
  if (options.guarantee == "observed" && command.gives("--confidence"))
    throw UsageError("--confidence does not belong to --claim observed, which infers nothing");
}

JudgementOptions judgement_options(const GuaranteeOptions& options, const GlobalOptions& global) {
  JudgementOptions judgement = options.judgement;
  judgement.guarantee.kind = value_in(kGuaranteeNames, options.guarantee);
  judgement.guarantee.bound = value_in(kBoundNames, options.bound);
  judgement.guarantee.seed = global.seed;
  judgement.threads = global.thread_count();
  for (const auto& [kind, text] : options.settings) {
    if (text.empty()) continue;
    if (judgement.setting_kind)
      throw UsageError(fmt::format("--{} and --{} each judge one setting: give one of them",
                                   name_of(*judgement.setting_kind), name_of(kind)));
    judgement.setting_kind = kind;
    judgement.setting = text;
  }
  return judgement;
}

}  // namespace attest
