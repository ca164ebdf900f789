// A link into the map of a report: what the address has after '#'.
#pragma once

#include <optional>
#include <string>

namespace attest {

/// Empty parts are left out: the page has its own beginning for each.
struct MapLink {
  std::string model = {}, metric = {}, selector = {}, setting = {};
  std::string statistic = {};  ///< "mean" or "worst"
  std::string order = {};      ///< "worst": the worst heads of each layer first
  std::optional<int> layer = {}, head = {};
};

/// "metric=recall&selector=ffd&setting=5&layer=13&head=5"
std::string map_link(const MapLink& link);

}  // namespace attest
