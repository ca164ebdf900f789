#include "dumps/import/tensor_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "dumps/base/error.h"

namespace attest {
namespace {

bool rows_lie_together(const TensorView& view) { return view.channel.stride == 1 || view.channel.extent == 1; }

}  // namespace

bool TensorView::is_htd() const {
  return rows_lie_together(*this) && (token.extent == 1 || token.stride == channel.extent) &&
         (head.extent == 1 || head.stride == token.extent * channel.extent) && batch_is_slowest();
}

bool TensorView::is_thd() const {
  return rows_lie_together(*this) && (head.extent == 1 || head.stride == channel.extent) &&
         (token.extent == 1 || token.stride == head.extent * channel.extent) && batch_is_slowest();
}

bool TensorView::batch_is_slowest() const {
  return batch.extent == 1 || batch.stride == head.extent * token.extent * channel.extent;
}

TensorLayout::TensorLayout(std::string letters) : letters_(std::move(letters)) {
  const bool known =
      std::ranges::all_of(letters_, [](char c) { return std::string_view("BHTD").find(c) != std::string_view::npos; });
  std::string sorted = letters_;
  std::ranges::sort(sorted);
  const bool twice = std::ranges::adjacent_find(sorted) != sorted.end();
  if (!known || twice || letters_.find('D') == letters_.npos)
    throw UsageError(fmt::format(
        "layout '{}': expected each of the letters B (sample), H (head), T (token), D (channel) at most once, and D",
        letters_));
}

TensorView TensorLayout::view(const SourceTensor& tensor) const {
  std::string letters = letters_;
  const bool has_batch = letters.find('B') != letters.npos;
  if (!has_batch && tensor.shape.size() == letters.size() + 1) letters.insert(letters.begin(), 'B');
  if (has_batch && tensor.shape.size() + 1 == letters.size()) std::erase(letters, 'B');
  if (tensor.shape.size() != letters.size())
    throw InputError(fmt::format("{}: expected {} axes (layout {}), found shape {}", tensor.place(), letters_.size(),
                                 letters_, shape_text(tensor.shape)));
  if (tensor.elements() == 0)
    throw InputError(fmt::format("{}: expected values, found shape {}", tensor.place(), shape_text(tensor.shape)));

  TensorView view;
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const std::size_t axis = tensor.column_major ? i : letters.size() - 1 - i;
    const char letter = letters[axis];
    TensorAxis& target = letter == 'B'   ? view.batch
                         : letter == 'H' ? view.head
                         : letter == 'T' ? view.token
                                         : view.channel;
    target = {tensor.shape[axis], stride};
    stride *= tensor.shape[axis];
  }
  return view;
}

}  // namespace attest
