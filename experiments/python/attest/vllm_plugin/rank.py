"""Which part of a model a process of an engine has."""
import dataclasses
import json


@dataclasses.dataclass
class Rank:
    """Place of a process among those that share the model. `kv_copies`: how many tensor-parallel ranks in a row have
    the same KV heads."""
    tensor: int = 0
    tensor_size: int = 1
    pipeline: int = 0
    pipeline_size: int = 1
    kv_copies: int = 1

    def count(self):
        """Of all ranks."""
        return self.tensor_size * self.pipeline_size

    def is_alone(self):
        return self.count() == 1

    def suffix(self):
        return "" if self.is_alone() else f".rank-{self.pipeline}-{self.tensor}"

    def attribute(self):
        """JSON for the root of this rank's dump, which join.py puts together with those of the other ranks."""
        return None if self.is_alone() else json.dumps(dataclasses.asdict(self))
