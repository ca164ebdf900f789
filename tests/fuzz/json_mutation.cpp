// Mutation of JSON documents.
#include "tests/fuzz/json_mutation.h"

#include "dumps/base/json.h"
#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/text_mutation.h"

namespace attest::fuzz {
namespace {

constexpr std::string_view kWords[]{"{",    "}",     "[",           "]",       ":",  ",",       "null",
                                    "true", "\"a\"", "\"a\":1,",    "1e999",   "-0", "\\u0000", "[[",
                                    "NaN",  "/*",    "\"\\ud800\"", "{\"a\":", "1,"};

void collect(Json& node, std::vector<Json*>& nodes) {
  nodes.push_back(&node);
  if (node.is_array())
    for (Json& element : node.elements()) collect(element, nodes);
  if (node.is_object())
    for (JsonMember& member : node.members()) collect(member.value, nodes);
}

Json odd_value(RandomStream& random) {
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
      return Json::array();
    case 7:
      return Json::object();
    case 8: {
      Json list = Json::array();
      for (std::uint64_t i = random.below(300); i > 0; --i) list.push_back(i);
      return list;
    }
    case 9: {
      Json deep = 1;
      for (std::uint64_t i = 1 + random.below(100); i > 0; --i)
        deep = random.below(2) == 0 ? Json::array({deep}) : Json{{"a", deep}};
      return deep;
    }
    default:
      return odd_text(random);
  }
}

template <class T>
auto any_place(std::vector<T>& list, RandomStream& random) {
  return list.begin() + static_cast<long>(random.below(list.size()));
}

void change(Json& node, Json& other, RandomStream& random) {
  switch (random.below(6)) {
    case 0:
    case 1:
      node = odd_value(random);
      break;
    case 2:
      if (Json copy = other; copy.size() < 1000) node = std::move(copy);
      break;
    case 3:
      if (node.is_array() && !node.empty()) node.elements().erase(any_place(node.elements(), random));
      if (node.is_object() && !node.empty()) node.members().erase(any_place(node.members(), random));
      break;
    case 4:
      if (node.is_array())
        node.push_back(node.empty() || random.below(2) == 0 ? odd_value(random)
                                                            : Json(node[random.below(node.size())]));
      if (node.is_object()) node[odd_text(random)] = odd_value(random);
      break;
    case 5:  // under another name
      if (node.is_object() && !node.empty()) {
        std::string& name = any_place(node.members(), random)->name;
        name = random.below(2) == 0 ? odd_text(random) : mutated_text(std::move(name), kWords, random);
      }
      if (node.is_whole()) node = node.whole() + static_cast<std::int64_t>(random.below(3)) - 1;
      break;
  }
}

}  // namespace

std::string mutated_json(Json document, RandomStream& random) {
  for (std::uint64_t times = random.below(4); times > 0; --times) {
    std::vector<Json*> nodes;
    collect(document, nodes);
    Json& node = *nodes[random.below(nodes.size())];
    Json other = *nodes[random.below(nodes.size())];
    change(node, other, random);
  }
  std::string text = document.dump(random.below(4) == 0 ? 1 : -1);
  if (random.below(3) == 0) text = mutated_text(std::move(text), kWords, random);
  if (random.below(40) == 0) damage_bytes(text, random);
  return text;
}

}  // namespace attest::fuzz
