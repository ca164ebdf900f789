// Options of a claim, and of what is judged.
#include "experiments/validation/claim_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "dumps/base/error.h"
#include "experiments/cli/checks.h"

namespace attest {

void add_claim_options(CLI::App& command, ClaimOptions& options, Targets targets) {
  JudgementOptions& judgement = options.judgement;
  CLI::Option* target = command.add_option(
      "--target", judgement.targets,
      "What each prompt must reach, METRIC[.STAT]>=VALUE or <=VALUE; STAT of its cells: mean (the default), "
      "min, max, median, pNN; may be repeated, and all must hold");
  target->allow_extra_args(false)
      ->transform(text_that_is("a target such as recall.min>=0.999"))
      ->type_name("TARGET")
      ->required(targets == Targets::required);
  std::vector<CLI::Option*> others;
  others.push_back(
      command.add_option("--claim", options.claim, "What is claimed: see 'Claims' in analysis/validation/README.md")
          ->transform(one_of(kClaimNames))
          ->capture_default_str()
          ->type_name("NAME"));
  others.push_back(command
                       .add_option("--max-violating", judgement.claim.max_violating,
                                   "Share of prompts that may miss a target (default 10%)")
                       ->transform(share_of_one())
                       ->type_name("SHARE"));
  others.push_back(command.add_option("--confidence", judgement.claim.confidence, "Of the claim (default 95%)")
                       ->transform(share_of_one())
                       ->type_name("SHARE"));
  others.push_back(
      command
          .add_option("--bound", options.bound,
                      "Of --claim mean: betting (wsr), Hoeffding-Bentkus, or the bootstrap, which is approximate")
          ->transform(one_of(kBoundNames))
          ->capture_default_str()
          ->type_name("NAME"));
  others.push_back(
      command
          .add_option("--clip", judgement.claim.clip,
                      "Of --claim mean: deficits count up to this (default ten times what the target allows)")
          ->transform(nonnegative_number())
          ->type_name("X"));
  others.push_back(command
                       .add_option("--for-length", judgement.for_length,
                                   "Refuse a verdict if no prompts are as long as this number of tokens")
                       ->transform(token_count())
                       ->type_name("N"));
  others.push_back(
      command.add_flag("--extrapolate", judgement.extrapolate, "Claim for the length of --for-length all the same"));
  others.push_back(
      command.add_option("--layers", judgement.layers, "Judge these layers: 0-31, or 0,5,8-11, or 8- (default all)")
          ->transform(text_that_is("a list such as 0-31"))
          ->type_name("LIST"));
  for (CLI::Option* option : others) option->needs(target);
}

void add_choice_options(CLI::App& command, ClaimOptions& options) {
  JudgementOptions& judgement = options.judgement;
  for (const SettingKindInfo& info : kSettingKinds)
    if (info.kind != SettingKind::none)
      command
          .add_option(fmt::format("--{}", info.name), options.settings[info.kind],
                      fmt::format("Judge this setting, {}, instead of finding the smallest", info.valid))
          ->transform(text_that_is(std::string(info.valid)))
          ->type_name("X");
  command
      .add_option("--selector", judgement.selector,
                  "Of results its label or name; of dumps NAME[:option=value,...] (default: the only one, or ffd)")
      ->transform(text_that_is("a selector"))
      ->type_name("SELECTOR");
  command
      .add_option("--grid", judgement.grid,
                  "Settings to choose from (default: all of the results; of dumps 1:16:0.25 for delta)")
      ->transform(text_that_is("a list such as 1:16:0.25"))
      ->type_name("GRID");
  command.add_option("--per", judgement.per, "What has a setting of its own")
      ->transform(one_of(kUnitNames))
      ->capture_default_str()
      ->type_name("UNIT");
  command
      .add_option(
          "--choose", judgement.choosing,
          "Share of the prompts that choose the settings of layers or KV heads; the others certify (default 50%)")
      ->transform(share_of_one())
      ->type_name("SHARE");
  command
      .add_option(
          "--io-budget", judgement.io_budget,
          "Find the settings of layers or KV heads that lose least while they read this share of dense attention")
      ->transform(share_of_one())
      ->type_name("SHARE");
  command.add_option("--model", judgement.model, "Of results of several models")
      ->transform(text_that_is("a model's name"))
      ->type_name("NAME");
}

void check_claim_options(const CLI::App& command, const ClaimOptions& options) {
  if (options.claim != "mean" && command.count("--bound") > 0) throw UsageError("--bound belongs to --claim mean");
  if (options.claim == "mean" && command.count("--max-violating") > 0)
    throw UsageError("--max-violating does not belong to --claim mean, which is about no share of prompts");
  if (options.claim == "observed" && command.count("--confidence") > 0)
    throw UsageError("--confidence does not belong to --claim observed, which infers nothing");
}

JudgementOptions judgement_options(const ClaimOptions& options, const GlobalOptions& global) {
  JudgementOptions judgement = options.judgement;
  const auto index = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) - names.begin();
  };
  judgement.claim.kind = static_cast<ClaimKind>(index(kClaimNames, options.claim));
  judgement.claim.bound = static_cast<MeanBound>(index(kBoundNames, options.bound));
  judgement.claim.seed = global.seed;
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
