"""Elements of torch's tensors for NumPy, which has no bfloat16."""
import torch


def bits(tensor):
    """The elements as integers of the same width."""
    return tensor.contiguous().cpu().view(torch.int16 if tensor.element_size() == 2 else torch.int32).numpy()
