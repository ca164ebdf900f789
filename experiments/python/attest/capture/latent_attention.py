"""Multi-head latent attention (DeepSeek V2 and V3) in the absorbed form that engines run, as multi-query attention.

The model expands each token's latent c [rank] with kv_b_proj into keys W_UK c and values W_UV c of every head. Since
q . (W_UK c) = (W_UK^T q) . c, attention is the same with one key/value head for all query heads:

    q = [W_UK^T q_nope, q_rope]   k = [c, k_rope]   v = c   output = W_UV softmax(scale q k) v
"""
import torch

from ..base.errors import InputError


def is_latent(module):
    """Whether a module has DeepSeek's attention over latents (MLA)."""
    return getattr(module, "kv_lora_rank", None) is not None


class Latents:
    """Keeps what each layer's kv_b_proj gets, until the layer's attention is captured."""

    def __init__(self, model):
        self.seen, self.hooks = {}, []
        for module in model.modules():
            if is_latent(module) and isinstance(getattr(module, "kv_b_proj", None), torch.nn.Module):
                self.hooks.append(module.kv_b_proj.register_forward_pre_hook(
                    lambda _, inputs, module=module: self.seen.__setitem__(module, inputs[0])))

    def remove(self):
        """Takes the hooks off the model."""
        for each in self.hooks:
            each.remove()

    def forget(self, module):
        """Frees the latent of a module's latest pass."""
        self.seen.pop(module, None)

    def take(self, module, layer, batch=1):
        """The latents [batch, tokens, rank] of this call, and kv_b_proj as a float32 matrix [rank, Hq, nope + Dv]."""
        if module not in self.seen:
            raise InputError(f"layer {layer}: expected latent attention that expands its latents by a kv_b_proj, found "
                             f"another kind ({type(module).__name__})")
        latents = self.seen.pop(module)
        rank = module.kv_lora_rank
        # By its images of the unit vectors, whatever the projection stores.
        matrix = module.kv_b_proj(torch.eye(rank, dtype=latents.dtype, device=latents.device))
        self.seen.pop(module)
        expanded = module.qk_nope_head_dim + module.v_head_dim
        return latents.reshape(batch, -1, rank), matrix.float().view(rank, -1, expanded)


class AbsorbedAttention:
    """What the dump records of one call: of the chosen rows, and of the last `new` tokens. latent [tokens, rank] and
    matrix are as of Latents.take; query and key [Hq, tokens, nope + rope] are the model's, expanded."""

    def __init__(self, latent, matrix, module, query, key, rows, new):
        nope = module.qk_nope_head_dim
        absorbed = torch.einsum("hnd,rhd->hnr", query[:, rows, :nope].float(), matrix[..., :nope])
        self.query = torch.cat([absorbed.to(query.dtype), query[:, rows, nope:]], dim=-1)
        self.key = torch.cat([latent[-new:], key[0, -new:, nope:]], dim=-1)[None]
        self.value = latent[None, -new:]
        self.expansion = matrix[..., nope:]  # W_UV [rank, Hq, Dv]
