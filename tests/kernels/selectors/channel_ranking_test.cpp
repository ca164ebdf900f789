// Channel rankings read from valid and invalid files, and computed from calibration samples.
#include "kernels/selectors/channel_ranking.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

class ChannelRankingFile : public ::testing::Test {
 protected:
  ChannelRanking read(const std::string& text, ChannelStatistic statistic = ChannelStatistic::qk) {
    std::ofstream(path_) << text;
    ChannelRanking ranking(statistic);
    ranking.read_file(path_);
    return ranking;
  }
  /// The error message, with the path replaced by FILE.
  template <class Act>
  std::string error(Act&& act) {
    std::string text = message_of<InputError>(act);
    const std::size_t at = text.find(path_);
    return at == std::string::npos ? text : text.replace(at, path_.size(), "FILE");
  }

  const ScratchFolder folder_;
  const std::string path_ = folder_.file("ranking.json");
};

constexpr const char* kRanking = R"({"model.layers.3.self_attn.qk_proj": [[2, 0, 3, 1], [3, 2, 1, 0]],
  "model.layers.3.self_attn.k_proj": [[1, 0, 2, 3]], "model.embed": 7})";

TEST_F(ChannelRankingFile, TheFirstChannelsOfTheHead) {
  const ChannelRanking ranking = read(kRanking);
  EXPECT_EQ(ranking.channels(3, 0, 0, 4, 2), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(ranking.channels(3, 1, 0, 4, 3), (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(read(kRanking, ChannelStatistic::k).channels(3, 5, 0, 4, 1), (std::vector<std::uint32_t>{1}));
}

TEST_F(ChannelRankingFile, BadFilesAreNamed) {
  EXPECT_EQ(error([&] { read("[1, 2]"); }), "FILE: expected a channel ranking, a JSON object, found a list");
  EXPECT_EQ(error([&] { read(kRanking, ChannelStatistic::q); }),
            "'FILE' holds no list named layers.<number>....q_proj");
  EXPECT_EQ(error([&] { read(R"({"layers.0.qk_proj": [["a"]]})"); }),
            "'FILE': 'layers.0.qk_proj' is not a list of channel numbers per head");
  EXPECT_EQ(error([&] { read(R"({"layers.0.qk_proj": [[0, 1], [0, 0]]})"); }),
            "'FILE': 'layers.0.qk_proj', head 1 does not list every channel once");
  EXPECT_EQ(error([&] { read(R"({"layers.0.qk_proj": [[0, -1]]})"); }),
            "'FILE': 'layers.0.qk_proj' is not a list of channel numbers per head");
  EXPECT_EQ(error([&] { ChannelRanking(ChannelStatistic::qk).read_file("/nowhere.json"); }),
            "/nowhere.json: cannot be opened (No such file or directory)");
  EXPECT_EQ(error([&] { ChannelRanking(ChannelStatistic::qk).read_file("/dev/zero"); }),
            "/dev/zero: expected a file, found a device");
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  EXPECT_TRUE(error([&] { read(R"({"layers.0.qk_proj": )" + deep + "}"); }).starts_with("FILE: "));
}

TEST_F(ChannelRankingFile, ALayerHasOneList) {
  EXPECT_EQ(error([&] {
              read(R"({"model.layers.3.self_attn.qk_proj": [[0, 1]], "vision.layers.3.self_attn.qk_proj": [[1, 0]]})");
            }),
            "'FILE': 'vision.layers.3.self_attn.qk_proj' is a second list of layer 3 beside "
            "'model.layers.3.self_attn.qk_proj', expected one");
}

TEST_F(ChannelRankingFile, EveryKindOfBadListIsRefused) {
  const std::string not_a_list = "'FILE': 'layers.0.qk_proj' is not a list of channel numbers per head";
  for (const char* list : {"7", "null", "\"01\"", "[0, 1]", "[[0, 1], 7]", "[[0, \"1\"]]", "[[[0]]]", "[{\"0\": 0}]",
                           "[[0, 1, 1e9]]", "[[0, 1.0]]"})
    EXPECT_EQ(error([&] { read(R"({"layers.0.qk_proj": )" + std::string(list) + "}"); }), not_a_list) << list;
  const std::string not_each = "'FILE': 'layers.0.qk_proj', head 0 does not list every channel once";
  for (const char* list : {"[[]]", "[[1]]", "[[0, 2]]", "[[4294967295, 0]]", "[[1, 1]]"})
    EXPECT_EQ(error([&] { read(R"({"layers.0.qk_proj": )" + std::string(list) + "}"); }), not_each) << list;
  for (const char* text : {"", "7", "null", "[]", "{", "{} x", "{\"a\": NaN}", "{'a': 1}", "\xff\xfe"})
    EXPECT_TRUE(error([&] { read(text); }).starts_with("FILE: ")) << text;
  const std::string no_list = "'FILE' holds no list named layers.<number>....qk_proj";
  for (const char* name :
       {"layers.qk_proj", "layers.x.qk_proj", "layers.-1x.qk_proj", "layers.0qk_proj", "layers.99999999999.qk_proj",
        "layers.0.qk_projection", "Layers.0.qk_proj", "mylayers.0.qk_proj", "layers.-1.qk_proj"})
    EXPECT_EQ(error([&] { read("{\"" + std::string(name) + "\": [[0]]}"); }), no_list) << name;
}

TEST_F(ChannelRankingFile, NamesAreCutAndPrinted) {
  EXPECT_EQ(error([&] { read("{\"\\u001b[2J\\n.layers.0.qk_proj\": 7}"); }),
            R"('FILE': '\x1b[2J\x0a.layers.0.qk_proj' is not a list of channel numbers per head)");
  const std::string name = "layers.0." + std::string(5000, 'x');
  EXPECT_EQ(error([&] { read("{\"" + name + ".qk_proj\": [[1]]}"); }),
            "'FILE': '" + name.substr(0, 200) + "...', head 0 does not list every channel once");
}

TEST_F(ChannelRankingFile, WhatItLacksIsNamed) {
  const ChannelRanking ranking = read(kRanking);
  EXPECT_EQ(error([&] { ranking.channels(2, 0, 0, 4, 1); }),
            "channel ranking from 'FILE': there is no head 0 of layer 2");
  EXPECT_EQ(error([&] { ranking.channels(3, 2, 0, 4, 1); }),
            "channel ranking from 'FILE': there is no head 2 of layer 3");
  EXPECT_EQ(error([&] { ranking.channels(3, 1, 0, 8, 1); }),
            "channel ranking from 'FILE': it ranks 4 channels, expected 8, in head 1 of layer 3");
}

TEST(ChannelRanking, SamplesAddUp) {
  // One KV head, two query heads, two channels, one query, two keys. Comments below give mean |q| * mean |k|.
  const auto sample = [](std::vector<float> q, std::vector<float> k) {
    AttentionLayer layer;
    layer.shape = {.num_query_heads = 2, .num_kv_heads = 1, .head_dim = 2, .value_dim = 2};
    layer.num_tokens = 2;
    layer.query_positions = {1};
    layer.q.resize(16);
    layer.k.resize(16);
    std::memcpy(layer.q.data(), q.data(), 16);
    std::memcpy(layer.k.data(), k.data(), 16);
    return layer;
  };
  ChannelRanking ranking(ChannelStatistic::qk);
  EXPECT_TRUE(ranking.empty());
  ranking.add(sample({1, -2, 5, 1}, {1, 1, -1, 1}));  // head 0: (1, 2), head 1: (5, 1)
  EXPECT_EQ(ranking.channels(0, 0, 0, 2, 1), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(ranking.channels(0, 1, 0, 2, 1), (std::vector<std::uint32_t>{0}));
  ranking.add(sample({1, 1, 1, 1}, {-3, 0, 3, 0}));  // adds (3, 0) to both
  EXPECT_EQ(ranking.channels(0, 0, 0, 2, 1), (std::vector<std::uint32_t>{0}));
}

}  // namespace
}  // namespace attest
