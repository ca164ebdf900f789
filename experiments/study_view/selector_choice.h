// Which selectors and settings of a study an experiment shows.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/study_view/model_study.h"

namespace attest {

/// Index of a setting of the grid; nothing if the grid has no such value, or if a settings_file makes it another value
/// in each KV head. A percentage is no such value.
std::optional<std::size_t> index_of(const StudySelector& group, double value);

/// Whether the two agree in every option but `names`.
bool agree_but_in(const PooledSelector& a, const PooledSelector& b, std::initializer_list<const char*> names);

/// Whether the two are of one kind and agree in every option but `names`.
bool differ_at_most_in(const PooledSelector& a, const PooledSelector& b, std::initializer_list<const char*> names);

using SelectorCondition = std::function<bool(const PooledSelector&)>;

/// The first selector of that name, with one setting for all KV heads (no settings_file), for which `accept` holds;
/// null if there is none.
const PooledSelector* first_selector(const ModelStudy& study, std::string_view name,
                                     const SelectorCondition& accept = nullptr);

/// The selectors whose setting is a delta of ffd's top-delta rule, the same for all KV heads, in the order of the
/// study.
std::vector<const PooledSelector*> top_delta_ffds(const ModelStudy& study);

/// The first of them for which `accept` holds; null if there is none.
const PooledSelector* first_top_delta_ffd(const ModelStudy& study, const SelectorCondition& accept);

/// The first of them for which `accept` holds and, if there is one, the same selector under the other GQA policy.
std::vector<const PooledSelector*> gqa_policies(const ModelStudy& study, const SelectorCondition& accept);

/// Ends the reason why an experiment needs a delta that is the same everywhere: which selectors of the study do not
/// have one. Empty if all do.
std::string left_out_for_settings_file(const ModelStudy& study);

/// Whether an ffd's pseudo-maximum is that of all blocks (option pseudo_max). The gaps that studies store are those of
/// sink and local blocks.
bool has_global_pseudo_max(const PooledSelector& ffd);

/// Nats per unit of an ffd's delta (options delta_unit); nothing for `unscaled`, where it depends on the softmax scale.
std::optional<double> nats_per_delta(const PooledSelector& ffd);

/// The delta at which an ffd is shown where there is room for one: 5, the paper's, else 7, else the middle of the grid.
std::size_t shown_delta(const StudySelector& group);

/// Labels of all selectors of the study.
std::vector<std::string> labels_of(const ModelStudy& study);

}  // namespace attest
