// What the CPU and the CUDA kernel of torch.ops.attest.attend share: checks of the tensors, and errors as Python has
// them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>

#include "dumps/attention_layer.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "kernels/selectors/selector.h"

namespace attest {

using AttendResults = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// out, lse and kept, not filled. Sizes are symbolic while torch.compile traces.
AttendResults empty_results(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// `tensor` itself, or a copy if it is not contiguous or not aligned as kernels on the GPU load it.
at::Tensor readable(const at::Tensor& tensor);

/// The arguments but for the tensors' data.
struct AttendArguments {
  AttentionLayer layer;
  std::shared_ptr<const Selector> selector;
  Setting setting;
};

/// Checks all arguments. Throws ValueError, UsageError or InputError.
AttendArguments attend_arguments(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 std::string_view selector, double setting, std::int64_t layer, double scale,
                                 double softcap, std::int64_t window, const std::optional<at::Tensor>& sinks,
                                 bool values_in_keys);

/// Calls `action`. Errors about its arguments become ValueError, those of a device RuntimeError.
template <class Action>
auto with_python_errors(Action&& action) -> decltype(action()) {
  try {
    return action();
  } catch (const UsageError& error) {
    TORCH_CHECK_VALUE(false, printable(error.what()));
  } catch (const InputError& error) {
    TORCH_CHECK_VALUE(false, printable(error.what()));
  } catch (const DeviceError& error) {
    TORCH_CHECK(false, printable(error.what()));
  }
}

}  // namespace attest
