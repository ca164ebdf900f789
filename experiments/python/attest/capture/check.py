"""The check of a captured layer: attention recomputed from what the dump holds must be the model's own output.

Both are compared per query and head, relative to the norm of the output. The bound is what rounding can explain:

* ROUNDINGS units of the model's element type. A kernel rounds the probabilities and the output, each by half a unit at
  most. Errors of single probabilities are independent; where values cancel out, their sum is compared with the noise
  that such errors make (SoftmaxAttention.outputs), not with the output.
* SCORE_ROUNDINGS units of float32 times the largest |score|, as both sides compute scores in float32.
* For latent attention also LATENT_ROUNDINGS units times SoftmaxAttention.score_noise: the dump's absorbed queries are
  rounded, and so are the model's expanded keys.
"""
import torch

from ..base.errors import InputError

ROUNDINGS = 2
SMALLEST_UNIT = 2.0**-11  # GPUs may multiply float32 matrices in TF32, which rounds to 11 bits
SCORE_ROUNDINGS = 32
LATENT_ROUNDINGS = 2
LARGEST_BOUND = 0.5  # an output of zeros has the error 1


def check_layer(layer, attention, output):
    """`attention` is the SoftmaxAttention of what was recorded, `output` [N, Hq, Dv] what the model got."""
    output = output.to(attention.query.device)
    for rows in attention.blocks(len(output)):
        _check_rows(layer, attention, rows, output[rows])


def _check_rows(layer, attention, rows, output):
    bad = (~output.isfinite()).flatten(1).any(1).nonzero()
    if len(bad):
        raise InputError(f"layer {layer}: the model's own attention output is not finite for the query at position "
                         f"{attention.positions[rows][bad[0, 0]]} (--dtype chooses another type)")
    exact, noise, peak = attention.outputs(rows)
    kind, single = torch.finfo(output.dtype), torch.finfo(torch.float32)
    bound = ROUNDINGS * max(kind.eps, SMALLEST_UNIT) + SCORE_ROUNDINGS * single.eps * (1 + peak)
    if attention.expansion is not None:
        bound = bound + LATENT_ROUNDINGS * kind.eps * attention.score_noise(rows)
    size = torch.maximum(exact.norm(dim=-1), noise)
    # A result below the normal numbers is rounded to a multiple of the smallest one.
    underflow = kind.smallest_normal * kind.eps * output.shape[-1] ** 0.5
    error = (output.float() - exact).norm(dim=-1)
    bound = bound.clamp(max=LARGEST_BOUND)
    excess = error - bound * size - underflow
    if not (excess <= 0).all():  # NaN is refused too
        query, head = divmod(excess.nan_to_num(torch.inf).argmax().item(), excess.shape[1])
        raise InputError(
            f"layer {layer}: its attention is not the softmax(scale q k) v that a dump describes (query at position "
            f"{attention.positions[rows][query]}, head {head}: relative error "
            f"{error[query, head] / size[query, head]:.2g}, rounding explains {bound[query, head]:.2g}); it may have a "
            "bias or a mask of its own")
