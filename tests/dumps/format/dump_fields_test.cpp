// The tables of the format's fields: the document states each row, and metadata survive the pipe whole or not at all.
#include "dumps/format/dump_fields.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "dumps/format/dump_metadata.h"
#include "dumps/hdf5/node.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"

namespace attest::test {
namespace {

constexpr std::size_t kWidth = 120;

/// The rows of a table as lines of the document: name, shape, type, meaning.
template <class Owner>
std::string document_rows(const Owner& owner, const std::string& indent) {
  std::string text;
  for (const Field<Owner>& field : fields_of(owner)) {
    std::string line = fmt::format("{}{:<{}}{:<15}{:<9}", indent, field.name, 25 - indent.size(),
                                   *field.shape == '\0' ? "attribute" : field.shape, field.type);
    const std::size_t column = line.size();
    std::string rest = fmt::format("{}{}", field.optional ? "optional" : "", field.meaning);
    if (field.optional && *field.meaning != '\0') rest.insert(std::string_view("optional").size(), ": ");
    while (line.size() + rest.size() > kWidth) {
      const std::size_t space = rest.rfind(' ', kWidth - line.size());
      text += line + rest.substr(0, space) + "\n";
      line = std::string(column, ' ');
      rest.erase(0, space + 1);
    }
    line += rest;
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string document_block() {
  return fmt::format("```\n{:<29}group\n    {:<21}{:<15}{:<9}\"attention-dump\"\n    {:<21}{:<15}{:<9}1\n", "/",
                     "format", "attribute", "string", "format_version", "attribute", "int") +
         document_rows(DumpInfo(), "    ") +
         fmt::format("\n{:<29}group; <sample> is a name without '/'\n", "/samples/<sample>/") +
         document_rows(SampleInfo(), "    ") +
         fmt::format("    {:<25}group; <l> is the layer number in decimal: \"0\", \"1\", ...\n", "layers/<l>/") +
         document_rows(LayerInfo(), "        ") + "```\n";
}

TEST(DumpFieldsTest, TheDocumentStatesEveryRow) {
  const std::string document = bytes_of_file(ATTEST_SOURCE_DIR "/dumps/README.md");
  EXPECT_NE(document.find(document_block()), std::string::npos)
      << "dumps/README.md has another table of fields, expected\n"
      << document_block();
}

DumpMetadata metadata_of_small_dump() {
  const ScratchFolder folder;
  const std::string path = folder.file("dump.h5");
  write_small_dump(path);
  const hdf5::Lock lock;
  return read_dump_metadata(hdf5::open_file(path));
}

TEST(DumpFieldsTest, MetadataSurviveThePipeWholeOrNotAtAll) {
  const DumpMetadata metadata = metadata_of_small_dump();
  const std::string bytes = encode(metadata);
  EXPECT_EQ(encode(decode(bytes)), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode(bytes.substr(0, size)), std::exception) << size;
  EXPECT_THROW(decode(bytes + "x"), std::exception);
}

TEST(DumpFieldsTest, WhatADamagedChildSendsIsRefused) {
  const DumpMetadata sound = metadata_of_small_dump();
  const auto refused = [&](const std::function<void(DumpMetadata&, LayerInfo&)>& damage) {
    DumpMetadata metadata = sound;
    damage(metadata, metadata.layers.at(0).begin()->second);
    EXPECT_THROW(decode(encode(metadata)), std::runtime_error);
  };
  decode(encode(sound));
  refused([](auto&, LayerInfo& layer) { layer.element_type = static_cast<ElementType>(3); });
  refused([](auto&, LayerInfo& layer) { layer.output_type = static_cast<ElementType>(200); });
  refused([](auto&, LayerInfo& layer) { layer.k.storage = static_cast<Storage>(4); });
  refused([](auto&, LayerInfo& layer) { layer.q.bytes += 2; });
  refused([](auto&, LayerInfo& layer) { layer.v.bytes = 0; });
  refused([](auto&, LayerInfo& layer) { layer.sliding_window = -1; });
  refused([](DumpMetadata& metadata, auto&) { metadata.info.shape.num_kv_heads = 0; });
  refused([](DumpMetadata& metadata, auto&) { metadata.info.shape.head_dim = -1; });
  refused([](DumpMetadata& metadata, auto&) { metadata.info.num_layers = 0; });
  refused([](DumpMetadata& metadata, auto&) { metadata.info.samples[0].num_tokens = std::int64_t{1} << 62; });
  refused([](DumpMetadata& metadata, auto&) { metadata.info.samples[0].query_positions[0] = -1; });
  refused([](DumpMetadata& metadata, auto&) { metadata.info.samples[0].prompt_length = 1 << 20; });
  refused([](DumpMetadata& metadata, auto&) { metadata.info.softmax_scale = std::nan(""); });
  refused([](DumpMetadata& metadata, auto&) { metadata.info.logit_softcap = -1; });
}

}  // namespace
}  // namespace attest::test
