// Makes a dump of the named arrays of a tensor source.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"
#include "dumps/import/tensor_layout.h"
#include "dumps/import/tensor_source.h"

namespace attest {

struct ImportOptions {
  std::string q_names, k_names, v_names;  ///< name patterns; all three or none (then usual ones are tried)
  std::string layout = "HTD";             ///< TensorLayout of k and v, and of q with T its queries
  std::string q_layout;                   ///< of q, if it differs
  std::vector<std::int64_t> positions;    ///< of the queries, the same in all samples; empty: the last N of each
  std::string sample = "sample";          ///< name where the patterns have no {s}
  std::string task = "imported";
  std::string model = "imported";
  std::string rope;                 ///< JSON; empty: not recorded
  int num_layers = 0;               ///< of the model; 0: the largest layer found + 1
  double softmax_scale = 0;         ///< 0: 1/sqrt(D), and not written
  double logit_softcap = 0;         ///< 0: none
  std::int64_t sliding_window = 0;  ///< 0: none
  std::vector<int> window_layers;   ///< that have the window; empty: all
  std::vector<TokenSpan> spans;     ///< of every sample
  bool bfloat16_bits = false;       ///< arrays of 16-bit integers (or NumPy's V2) hold bfloat16
};

/// What will be written: found and checked from names, types and shapes alone.
struct ImportPlan {
  struct Tensor {
    std::size_t index = 0;  ///< of the source's tensors()
    TensorView view;
  };
  struct Layer {
    int layer = 0;
    ElementType element_type = ElementType::float32;
    Tensor q, k, v;
  };
  struct Sample {
    std::string name;
    std::int64_t batch = 0;  ///< index along B
    std::int64_t num_tokens = 0;
    std::vector<std::int64_t> query_positions;
    std::vector<Layer> layers;  ///< ascending
  };
  AttentionShape shape;
  int num_layers = 0;
  std::vector<Sample> samples;
  std::int64_t bytes = 0;  ///< of all q, k and v
};

/// `path` names the source in messages. Throws InputError when names, types or shapes do not make a dump, UsageError
/// when the options are wrong in themselves.
ImportPlan plan_import(const TensorSource& source, const std::string& path, const ImportOptions& options);

/// Streams what the plan says to `target`, layer by layer. Memory is a few MiB where k and v are [H, T, D] or [T, H, D]
/// in the file, else one array; and the queries of one layer. `progress` gets bytes done and in all; what it throws
/// ends the import and leaves no file. Throws InputError when values cannot be read, OutputError when `target` cannot
/// be written.
void write_import(TensorSource& source, const ImportPlan& plan, const ImportOptions& options, const std::string& target,
                  bool overwrite, const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

}  // namespace attest
