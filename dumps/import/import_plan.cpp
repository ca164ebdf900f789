// Which arrays are q, k and v of which layer, and whether they fit each other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "dumps/base/error.h"
#include "dumps/import/name_pattern.h"
#include "dumps/import/tensor_import.h"

namespace attest {
namespace {

constexpr std::array<std::string_view, 3> kRoles{"q", "k", "v"};

constexpr int kMostLayers = 100'000;  // a number beyond is none of a layer

using Patterns = std::array<NamePattern, 3>;

/// Tried in this order when no pattern is given.
std::vector<Patterns> usual_patterns() {
  std::vector<Patterns> all;
  for (const std::string_view form :
       {"layers.{{l}}.{}", "{{s}}.layers.{{l}}.{}", "{{s}}/layers/{{l}}/{}", "model.layers.{{l}}.self_attn.{}",
        "layer_{{l}}.{}", "layer{{l}}.{}", "layer_{{l}}/{}", "layer{{l}}/{}", "{}_{{l}}", "{}{{l}}", "{{l}}.{}",
        "{{l}}/{}", "{{s}}.{}", "{{s}}/{}", "{}"}) {
    const auto pattern = [&](std::string_view role) { return NamePattern(fmt::format(fmt::runtime(form), role)); };
    all.push_back({pattern("q"), pattern("k"), pattern("v")});
  }
  return all;
}

/// Sample name and layer number; what a pattern does not say is empty and 0.
using LayerKey = std::pair<std::string, int>;
using LayerTensors = std::map<LayerKey, std::array<std::optional<std::size_t>, 3>>;

class Planner {
 public:
  Planner(const TensorSource& source, const std::string& path, const ImportOptions& options)
      : tensors_(source.tensors()),
        path_(path),
        options_(options),
        layout_(options.layout),
        q_layout_(options.q_layout.empty() ? options.layout : options.q_layout) {}

  ImportPlan plan() {
    const LayerTensors found = find_layers();
    std::string sample;
    for (auto layer = found.begin(); layer != found.end();) {
      const auto end =
          std::ranges::find_if(layer, found.end(), [&](const auto& l) { return l.first.first != layer->first.first; });
      add_samples(layer, end);
      layer = end;
    }
    const int layers = largest_layer_ + 1;
    if (options_.num_layers != 0 && options_.num_layers < layers)
      throw UsageError(
          fmt::format("{}: expected at least {} layers, found {} (--num-layers)", path_, layers, options_.num_layers));
    plan_.num_layers = std::max(layers, options_.num_layers);
    return std::move(plan_);
  }

 private:
  [[noreturn]] void fail(const SourceTensor& tensor, std::string_view expected, std::string_view found) const {
    throw InputError(fmt::format("{}: expected {}, found {}", tensor.place(), expected, found));
  }

  LayerTensors assign(const Patterns& patterns) const {
    LayerTensors layers;
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      for (std::size_t role = 0; role < kRoles.size(); ++role) {
        const auto match = patterns[role].match(tensors_[i].name);
        if (!match) continue;
        auto& place = layers[{match->sample.value_or(""), match->layer.value_or(0)}][role];
        if (place)
          throw InputError(fmt::format("{}: expected one {} of layer {}, found {} and {}", path_, kRoles[role],
                                       match->layer.value_or(0), in_quotes(tensors_[*place].name),
                                       in_quotes(tensors_[i].name)));
        place = i;
      }
    return layers;
  }

  std::string found_names() const {
    if (tensors_.empty()) return "no arrays";
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(tensors_.size(), 4); ++i)
      text += (i > 0 ? ", " : "") + in_quotes(tensors_[i].name);
    return tensors_.size() > 4 ? fmt::format("{} and {} more", text, tensors_.size() - 4) : text;
  }

  LayerTensors find_layers() const {
    const bool given = !options_.q_names.empty();
    if (given != !options_.k_names.empty() || given != !options_.v_names.empty())
      throw UsageError("name patterns: expected all of --q, --k and --v, or none");
    const std::vector<Patterns> candidates =
        given ? std::vector{Patterns{NamePattern(options_.q_names), NamePattern(options_.k_names),
                                     NamePattern(options_.v_names)}}
              : usual_patterns();
    for (const Patterns& patterns : candidates) {
      LayerTensors layers = assign(patterns);
      const bool every_role = std::ranges::all_of(std::array{0, 1, 2}, [&](int role) {
        return std::ranges::any_of(layers, [&](const auto& layer) { return layer.second[role].has_value(); });
      });
      if (!every_role) continue;
      for (const auto& [key, roles] : layers)
        for (std::size_t role = 0; role < kRoles.size(); ++role)
          if (!roles[role])
            throw InputError(fmt::format("{}: layer {}{}: expected q, k and v, found no array that fits '{}'", path_,
                                         key.second, key.first.empty() ? "" : " of sample " + in_quotes(key.first),
                                         patterns[role].text()));
      return layers;
    }
    throw InputError(fmt::format("{}: expected arrays named like '{}', '{}' and '{}', found {}{}", path_,
                                 candidates[0][0].text(), candidates[0][1].text(), candidates[0][2].text(),
                                 found_names(), given ? "" : " (--q, --k and --v name them)"));
  }

  ElementType element_type(const SourceTensor& tensor) const {
    if (tensor.element_type) return *tensor.element_type;
    if (tensor.bits_of_16 && options_.bfloat16_bits) return ElementType::bfloat16;
    const bool is_double = tensor.type_name == "F64" || tensor.type_name == "<f8";
    fail(tensor, "float16, bfloat16 or float32",
         in_quotes(tensor.type_name) + (tensor.bits_of_16 ? " (--bfloat16-bits, if these are the bits of bfloat16)"
                                        : is_double       ? " (convert it to float32 first)"
                                                          : ""));
  }

  ImportPlan::Layer layer(int number, const std::array<std::optional<std::size_t>, 3>& roles) const {
    ImportPlan::Layer layer{
        .layer = number, .element_type = element_type(tensors_[*roles[0]]), .q = {}, .k = {}, .v = {}};
    layer.q = {*roles[0], q_layout_.view(tensors_[*roles[0]])};
    layer.k = {*roles[1], layout_.view(tensors_[*roles[1]])};
    layer.v = {*roles[2], layout_.view(tensors_[*roles[2]])};
    for (const auto& role : roles)
      if (const ElementType other = element_type(tensors_[*role]); other != layer.element_type)
        fail(tensors_[*role],
             fmt::format("{} as in {}", name_of(layer.element_type), in_quotes(tensors_[*roles[0]].name)),
             name_of(other));
    return layer;
  }

  void require_axis(const ImportPlan::Tensor& tensor, const TensorLayout& layout, std::string_view what,
                    std::int64_t expected, std::int64_t found) const {
    if (expected == found) return;
    const SourceTensor& t = tensors_[tensor.index];
    fail(t, fmt::format("{} {}", expected, what),
         fmt::format("{} in shape {} (layout {})", found, shape_text(t.shape), layout.letters()));
  }

  /// Against the shape of the first layer, which sets it.
  void check_shape(const ImportPlan::Layer& layer) {
    const auto narrow = [&](const ImportPlan::Tensor& tensor, std::int64_t extent) {
      if (extent > 1 << 20) fail(tensors_[tensor.index], "at most 1048576 heads and channels", std::to_string(extent));
      return static_cast<int>(extent);
    };
    AttentionShape& shape = plan_.shape;
    if (shape.head_dim == 0) {
      shape = {narrow(layer.q, layer.q.view.head.extent), narrow(layer.k, layer.k.view.head.extent),
               narrow(layer.q, layer.q.view.channel.extent), narrow(layer.v, layer.v.view.channel.extent)};
      if (shape.num_query_heads % shape.num_kv_heads != 0)
        fail(tensors_[layer.q.index], fmt::format("a multiple of the {} heads of k", shape.num_kv_heads),
             fmt::format("{} heads in shape {} (layout {})", shape.num_query_heads,
                         shape_text(tensors_[layer.q.index].shape), q_layout_.letters()));
    }
    require_axis(layer.q, q_layout_, "query heads", shape.num_query_heads, layer.q.view.head.extent);
    require_axis(layer.q, q_layout_, "channels", shape.head_dim, layer.q.view.channel.extent);
    require_axis(layer.k, layout_, "KV heads", shape.num_kv_heads, layer.k.view.head.extent);
    require_axis(layer.k, layout_, "channels as in q", shape.head_dim, layer.k.view.channel.extent);
    require_axis(layer.v, layout_, "KV heads as in k", shape.num_kv_heads, layer.v.view.head.extent);
    require_axis(layer.v, layout_, "channels", shape.value_dim, layer.v.view.channel.extent);
    require_axis(layer.v, layout_, "tokens as in k", layer.k.view.token.extent, layer.v.view.token.extent);
    require_axis(layer.k, layout_, "samples as in q", layer.q.view.batch.extent, layer.k.view.batch.extent);
    require_axis(layer.v, layout_, "samples as in q", layer.q.view.batch.extent, layer.v.view.batch.extent);
  }

  std::vector<std::int64_t> positions(const ImportPlan::Layer& layer) const {
    const std::int64_t queries = layer.q.view.token.extent, tokens = layer.k.view.token.extent;
    if (queries > tokens)
      fail(tensors_[layer.q.index], fmt::format("at most {} queries, the tokens of k", tokens),
           fmt::format("{} in shape {} (layout {})", queries, shape_text(tensors_[layer.q.index].shape),
                       q_layout_.letters()));
    std::vector<std::int64_t> positions = options_.positions;
    if (positions.empty())
      for (std::int64_t p = tokens - queries; p < tokens; ++p) positions.push_back(p);
    if (static_cast<std::int64_t>(positions.size()) != queries)
      fail(tensors_[layer.q.index], fmt::format("{} queries, as many as --positions has", positions.size()),
           std::to_string(queries));
    for (std::size_t i = 0; i < positions.size(); ++i)
      if (positions[i] < 0 || (i > 0 && positions[i] <= positions[i - 1]))
        throw UsageError(fmt::format("positions: expected ascending numbers from 0, found {}", positions[i]));
    if (positions.back() >= tokens)
      fail(tensors_[layer.k.index], fmt::format("tokens beyond position {}", positions.back()), std::to_string(tokens));
    return positions;
  }

  /// All samples along B of the layers [begin, end), which are those of one {s}.
  void add_samples(LayerTensors::const_iterator begin, LayerTensors::const_iterator end) {
    ImportPlan::Sample sample;
    sample.name = begin->first.first.empty() ? options_.sample : begin->first.first;
    std::int64_t batch = 0;
    for (auto it = begin; it != end; ++it) {
      const ImportPlan::Layer added = layer(it->first.second, it->second);
      check_shape(added);
      if (it == begin) {
        batch = added.q.view.batch.extent;
        sample.num_tokens = added.k.view.token.extent;
        sample.query_positions = positions(added);
      }
      require_axis(added.q, q_layout_, "samples as in the first layer", batch, added.q.view.batch.extent);
      require_axis(added.q, q_layout_, "queries as in the first layer",
                   static_cast<std::int64_t>(sample.query_positions.size()), added.q.view.token.extent);
      require_axis(added.k, layout_, "tokens as in the first layer", sample.num_tokens, added.k.view.token.extent);
      for (const ImportPlan::Tensor* tensor : {&added.q, &added.k, &added.v})
        plan_.bytes += tensors_[tensor->index].elements() * static_cast<std::int64_t>(size_of(added.element_type));
      if (added.layer >= kMostLayers)
        fail(tensors_[added.q.index], fmt::format("a layer below {}", kMostLayers), std::to_string(added.layer));
      largest_layer_ = std::max(largest_layer_, added.layer);
      sample.layers.push_back(added);
    }
    for (const TokenSpan& span : options_.spans)
      if (span.begin < 0 || span.begin >= span.end || span.end > sample.num_tokens)
        throw UsageError(fmt::format("spans: expected BEGIN:END within the {} tokens of sample {}, found {}:{}",
                                     sample.num_tokens, in_quotes(sample.name), span.begin, span.end));
    for (sample.batch = 0; sample.batch < batch; ++sample.batch) {
      plan_.samples.push_back(sample);
      if (batch > 1) plan_.samples.back().name += fmt::format("-{}", sample.batch);
    }
  }

  const std::vector<SourceTensor>& tensors_;
  const std::string& path_;
  const ImportOptions& options_;
  TensorLayout layout_, q_layout_;
  int largest_layer_ = 0;
  ImportPlan plan_;
};

}  // namespace

ImportPlan plan_import(const TensorSource& source, const std::string& path, const ImportOptions& options) {
  return Planner(source, path, options).plan();
}

}  // namespace attest
