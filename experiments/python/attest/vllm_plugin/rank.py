"""Which part of a model a process of an engine has."""
import dataclasses
import json

MOST_RANKS = 1 << 16


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
        """How many ranks share the model."""
        return self.tensor_size * self.pipeline_size

    def is_alone(self):
        """Whether its dumps are whole."""
        return self.count() == 1

    def suffix(self):
        """The end of the names of this rank's files."""
        return "" if self.is_alone() else f".rank-{self.pipeline}-{self.tensor}"

    def attribute(self):
        """JSON for the root of this rank's dump, which join.py puts together with those of the other ranks."""
        return None if self.is_alone() else json.dumps(dataclasses.asdict(self))

    @classmethod
    def of_attribute(cls, text):
        """ValueError where it is not one of attribute()'s."""
        if text is None:
            return cls()
        try:
            found = cls(**json.loads(text))
        except RecursionError as error:
            raise ValueError("engine_rank: is nested too deeply") from error
        for name, number in dataclasses.asdict(found).items():
            if type(number) is not int or not 0 <= number <= MOST_RANKS:
                raise ValueError(f"engine_rank: {name}: expected a number of ranks")
        if not (found.tensor < found.tensor_size and found.pipeline < found.pipeline_size and found.kv_copies):
            raise ValueError("engine_rank: expected a rank within those that there are")
        return found
