// Layers or KV heads as units with settings of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analysis/validation/prompt_values.h"

namespace attest {

/// The smallest unit is the KV head. Under gqa = union its query heads read what any of them keeps, so that a cell
/// depends on the setting of its own KV head alone.
enum class UnitKind : std::uint8_t { layer, kv_head };

/// As option --per has it.
std::string_view name_of(UnitKind kind);

struct Unit {
  std::size_t row = 0;  ///< index in PromptSet::layers
  int kv_head = -1;     ///< -1: the whole layer
  std::int64_t first_head = 0, num_heads = 0;
};

/// Query heads of all units.
double heads_of(std::span<const Unit> units);

/// By layer, then by KV head. Throws UsageError if the targets are of whole layers and the units are not.
std::vector<Unit> units_of(const PromptSet& set, UnitKind kind, std::span<const Target> targets);

/// A unit without a setting: its attention is exact.
inline constexpr std::size_t kDense = std::numeric_limits<std::size_t>::max();

/// [unit] index into the grid, or kDense.
using Assignment = std::vector<std::size_t>;

/// What each unit loses and reads at each setting, over some prompts. [unit * num_settings + setting]
struct UnitLosses {
  std::size_t num_settings = 0;
  std::vector<double> worst;  ///< the largest relative deficit (target.h) of a prompt and target
  /// The mean over all prompts of the sum over targets of relative deficits. A prompt without a number adds 0.
  std::vector<double> mean;
  std::vector<double> io;  ///< mean io_ratio over the prompts that have it; 0 without any
};

UnitLosses unit_losses(const PromptSet& set, std::span<const std::size_t> prompts, std::span<const Target> targets,
                       std::span<const Unit> units, int threads);

/// A prompt under an assignment of settings to units.
struct AssembledPrompt {
  std::vector<double> targets;  ///< NaN where the prompt does not count
  double keep = 0, io = 0;
};

/// [assignment] of one prompt. Its cells are read once.
std::vector<AssembledPrompt> assemble(const PromptSet& set, std::size_t prompt, std::span<const Target> targets,
                                      std::span<const Unit> units, std::span<const Assignment> assignments);

/// The setting of every cell: [PromptSet::layers][query head].
std::vector<std::vector<std::size_t>> settings_of_heads(const PromptSet& set, std::span<const Unit> units,
                                                        const Assignment& assignment);

}  // namespace attest
