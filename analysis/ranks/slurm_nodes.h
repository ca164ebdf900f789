// Slurm's short forms: lists of nodes, and numbers of tasks by node.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attest {

/// The first node of a list such as "n[01-03,7],m2": "n01". Empty if it is malformed.
std::string first_slurm_node(std::string_view list);

/// The number of tasks on a node, counted from 0, of a list such as "8(x2),4". Empty if it is malformed or too short.
std::optional<int> slurm_tasks_on_node(std::string_view list, int node);

}  // namespace attest
