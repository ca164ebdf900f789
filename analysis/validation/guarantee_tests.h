// Parts of the tests of guarantees (guarantee.h), for the files that make up its functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/validation/guarantee.h"

namespace attest {

/// The numbers of one target, without the prompts that do not count.
std::vector<double> counted(const PromptNumbers& numbers, std::size_t target);

/// Losses in [0, 1] of the deficits of `values`.
std::vector<double> losses_of(std::span<const double> values, const Target& target, double clip);

double mean_p(std::vector<double> losses, double allowed, const Guarantee& guarantee);

/// p-value of "the expected loss is at most `allowed`": the same test of what is missing to a loss of 1.
double mirrored_p(std::vector<double> losses, double allowed, const Guarantee& guarantee);

/// The level of each of the tests that can refute: any of them does, so that alpha is shared among them.
double refuting_level(const Evidence& evidence, const Guarantee& guarantee);

/// Whether k of n are at most the allowed share: it is given in decimal, and 3 of 30 are 10 %.
bool within(std::int64_t k, std::int64_t n, double share);

}  // namespace attest
