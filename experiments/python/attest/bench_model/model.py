"""The model that is timed: random weights in a shape, or those of a checkpoint."""
import os
import pathlib

import torch

from ..base.errors import InputError, UsageError, first_line
from ..capture.model import load_weights, refuse_missing_folder
from .decoder import Decoder, refuse_other_families

LLAMA31_8B = "llama31-8b"
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def shape_of_llama31_8b():
    """Built in, so that it can be timed without a network."""
    from transformers import LlamaConfig

    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    return LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                       num_attention_heads=32, num_key_value_heads=8, head_dim=128, rms_norm_eps=1e-5,
                       max_position_embeddings=131072, rope_parameters=rope, tie_word_embeddings=False)


def has_weights(name):
    """A name on the hub has them."""
    path = pathlib.Path(name)
    return not path.exists() or path.is_dir() and any(any(path.glob(pattern)) for pattern in WEIGHTS)


def load_config(name):
    """The configuration of llama31-8b, of a config.json, of a folder with one, or of a name on the hub."""
    from transformers import AutoConfig

    if name == LLAMA31_8B:
        return shape_of_llama31_8b()
    if not os.path.isfile(name):
        refuse_missing_folder(name)
    try:
        config = AutoConfig.from_pretrained(name).get_text_config()
    except Exception as error:  # whatever is wrong with it, in the library's words
        raise InputError(f"{name}: has no configuration of a model ({first_line(error)})") from error
    refuse_other_families(config, name)
    return config


def element_type_of(config, wanted, random):
    """The type of weights and cache: one of 16 bits, as the kernels take no other."""
    dtype = getattr(torch, wanted) if wanted else None if random else getattr(config, "dtype", None)
    dtype = dtype or torch.bfloat16
    if dtype not in (torch.float16, torch.bfloat16):
        raise UsageError(f"the checkpoint is {str(dtype).removeprefix('torch.')}, and its cache would be: expected "
                         "--dtype float16 or bfloat16")
    return dtype


def random_weights(config, device, dtype, seed):
    """Sums of all products have the size of one of their terms, and what a layer adds is small beside what is there, as
    in trained models: so rounding does not grow from layer to layer."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        shapes = {name: x.shape for name, x in AutoModelForCausalLM.from_config(config).state_dict().items()}
    generator = torch.Generator(device).manual_seed(seed)
    weights = {}
    for name, shape in shapes.items():
        weight = torch.empty(shape, device=device, dtype=dtype)
        if "norm" in name:
            weight.fill_(1)
        elif name.endswith(".bias"):
            weight.zero_()
        else:
            added = name.endswith(("o_proj.weight", "down_proj.weight"))
            size = 1 if "embed_tokens" in name else (shape[1] * (2 * config.num_hidden_layers if added else 1)) ** -0.5
            weight.normal_(0, size, generator=generator)
        weights[name] = weight
    return weights


def load_decoder(request, device):
    """The Decoder, its configuration, and whether its weights are random."""
    name, random = request["model"], not has_weights(request["model"]) or request["model"] == LLAMA31_8B
    config = load_config(name)
    dtype = element_type_of(config, request["element_type"], random)
    weights = random_weights(config, device, dtype, request["seed"]) if random else \
        {key: tensor.detach() for key, tensor in load_weights(name, dtype, device).state_dict().items()}
    return Decoder(config, weights), config, random
