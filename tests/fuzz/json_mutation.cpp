// Mutation of JSON documents.
#include "tests/fuzz/json_mutation.h"

#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/text_mutation.h"

namespace attest::fuzz {
namespace {

using nlohmann::json;

constexpr std::string_view kWords[]{"{",    "}",     "[",           "]",       ":",  ",",       "null",
                                    "true", "\"a\"", "\"a\":1,",    "1e999",   "-0", "\\u0000", "[[",
                                    "NaN",  "/*",    "\"\\ud800\"", "{\"a\":", "1,"};

void collect(json& node, std::vector<json*>& nodes) {
  nodes.push_back(&node);
  if (node.is_structured())
    for (json& child : node) collect(child, nodes);
}

json odd_value(RandomStream& random) {
  switch (random.below(12)) {
    case 0:
      return nullptr;
    case 1:
      return random.below(2) == 0;
    case 2:
      return static_cast<std::int64_t>(any_of(random, kOddNumbers));
    case 3:
      return any_of(random, kOddNumbers);
    case 4:
      return -static_cast<double>(random.below(100)) / 7;
    case 5:
      return 1.7e308;
    case 6:
      return json::array();
    case 7:
      return json::object();
    case 8: {
      json list = json::array();
      for (std::uint64_t i = random.below(300); i > 0; --i) list.push_back(i);
      return list;
    }
    case 9: {
      json deep = 1;
      for (std::uint64_t i = 1 + random.below(100); i > 0; --i)
        deep = random.below(2) == 0 ? json::array({deep}) : json{{"a", deep}};
      return deep;
    }
    default:
      return odd_text(random);
  }
}

void change(json& node, json& other, RandomStream& random) {
  switch (random.below(6)) {
    case 0:
    case 1:
      node = odd_value(random);
      break;
    case 2:
      if (json copy = other; copy.size() < 1000) node = std::move(copy);
      break;
    case 3:
      if (node.is_array() && !node.empty()) node.erase(random.below(node.size()));
      if (node.is_object() && !node.empty())
        node.erase(std::next(node.begin(), static_cast<long>(random.below(node.size()))));
      break;
    case 4:
      if (node.is_array())
        node.push_back(node.empty() || random.below(2) == 0 ? odd_value(random)
                                                            : json(node[random.below(node.size())]));
      if (node.is_object()) node[odd_text(random)] = odd_value(random);
      break;
    case 5:  // under another name
      if (node.is_object() && !node.empty()) {
        const auto member = std::next(node.begin(), static_cast<long>(random.below(node.size())));
        json value = *member;
        std::string name = member.key();
        node.erase(member);
        name = random.below(2) == 0 ? odd_text(random) : mutated_text(std::move(name), kWords, random);
        node[name] = std::move(value);
      }
      if (node.is_number_integer()) node = node.get<std::int64_t>() + static_cast<std::int64_t>(random.below(3)) - 1;
      break;
  }
}

}  // namespace

std::string mutated_json(json document, RandomStream& random) {
  for (std::uint64_t times = random.below(4); times > 0; --times) {
    std::vector<json*> nodes;
    collect(document, nodes);
    json& node = *nodes[random.below(nodes.size())];
    json other = *nodes[random.below(nodes.size())];
    change(node, other, random);
  }
  std::string text = document.dump(random.below(4) == 0 ? 1 : -1, ' ', false, json::error_handler_t::replace);
  if (random.below(3) == 0) text = mutated_text(std::move(text), kWords, random);
  if (random.below(40) == 0) damage_bytes(text, random);
  return text;
}

}  // namespace attest::fuzz
