// Channel rankings of DoubleSparse, in JSON.
#include "dumps/base/json.h"
#include "kernels/selectors/channel_ranking.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

constexpr int kChannels = 4;

Json seed() {
  return parse_json(R"({"model.layers.0.self_attn.qk_proj": [[2, 0, 3, 1], [3, 2, 1, 0]],
                        "model.layers.1.self_attn.qk_proj": [[0, 1, 2, 3], [1, 0, 3, 2]],
                        "model.layers.0.self_attn.k_proj": [[1, 0, 2, 3], [3, 0, 2, 1]],
                        "model.layers.1.self_attn.k_proj": [[0, 1, 2, 3], [1, 0, 3, 2]],
                        "model.layers.0.self_attn.q_proj": [[1, 0, 2, 3], [3, 0, 2, 1]],
                        "model.layers.1.self_attn.q_proj": [[0, 1, 2, 3], [1, 0, 3, 2]],
                        "model.embed": 7})");
}

class ChannelsTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override { return mutated_json(seed(), random); }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("c.json", input);
    return outcome_of(path, [&] {
      constexpr ChannelStatistic kStatistics[]{ChannelStatistic::qk, ChannelStatistic::q, ChannelStatistic::k};
      ChannelRanking ranking(kStatistics[input.size() % std::size(kStatistics)]);
      ranking.read_file(path);
      for (int layer = 0; layer < 2; ++layer)
        for (int head = 0; head < 2; ++head)
          for (int count = 1; count <= kChannels; ++count) check(ranking, layer, head, count);
    });
  }

 private:
  static void check(const ChannelRanking& ranking, int layer, int head, int count) {
    const std::vector<std::uint32_t> channels = ranking.channels(layer, head, 0, kChannels, count);
    require(channels.size() == static_cast<std::size_t>(count), "another number of channels");
    for (std::size_t i = 0; i < channels.size(); ++i)
      require(channels[i] < kChannels && (i == 0 || channels[i] > channels[i - 1]), "channels that do not ascend");
  }

  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kChannelsTarget{"channels", ".json", 10'000,
                                 [] { return std::unique_ptr<FuzzTarget>(new ChannelsTarget); }};

}  // namespace attest::fuzz
