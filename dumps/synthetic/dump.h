// Seeded synthetic dumps whose attention has a known structure, which README.md describes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"
#include "dumps/dump_info.h"
#include "dumps/element_type.h"

namespace attest {

struct SyntheticOptions {
  AttentionShape shape{.num_query_heads = 8, .num_kv_heads = 2, .head_dim = 128, .value_dim = 128};
  int num_layers = 2;
  int num_samples = 1;
  std::int64_t num_tokens = 4096;  ///< T
  std::int64_t num_queries = 4;    ///< N, at the last N positions
  ElementType element_type = ElementType::bfloat16;
  std::string profile = "mixed";  ///< one of profile_names() (heads.h)
  std::uint64_t seed = 0;
  double softmax_scale = 0;         ///< 0: 1/sqrt(D), and not written
  double logit_softcap = 0;         ///< 0: none
  std::int64_t sliding_window = 0;  ///< 0: none
  int global_every = 0;             ///< layers n-1, 2n-1, ... ignore the window; 0: none does
  int num_spans = 2;                ///< evidence spans per sample; fewer when the tokens do not suffice
  std::int64_t span_tokens = 16;    ///< tokens of each
  int sink_tokens = 1;              ///< number of first tokens that act as sinks
};

// Limits of the options: of tokens that of every dump, else far above any model and far below any overflow.
inline constexpr int kMaxCount = 1 << 20;
inline constexpr int kMaxSpans = 1000;
inline constexpr std::int64_t kMaxTokens = kLargestCount;
inline constexpr std::int64_t kMaxWindow = std::int64_t{1} << 40;

/// Is called with the bytes of q, k and v written so far and in the whole dump, by one thread at a time. An exception
/// that it throws ends the writing and leaves no file.
using DumpProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Throws a UsageError that names the option and its value.
void check(const SyntheticOptions& options);

/// The sliding window of a layer; 0: none.
std::int64_t sliding_window_of(const SyntheticOptions& options, int layer);

/// The evidence spans of a sample, ascending and disjoint, all before the first query.
std::vector<TokenSpan> synthetic_spans(const SyntheticOptions& options, int sample);

/// The header of the dump; `source` holds the options and the kinds of the heads as JSON.
DumpInfo synthetic_header(const SyntheticOptions& options);

/// Streams the dump to `path`. Its bytes depend on `options` alone, not on `threads` (at least 1); memory is a few MiB
/// per thread. Throws UsageError, and OutputError when `path` exists without `overwrite` or cannot be written.
void write_synthetic_dump(const SyntheticOptions& options, const std::string& path, bool overwrite, int threads,
                          const DumpProgress& progress = {});

}  // namespace attest
