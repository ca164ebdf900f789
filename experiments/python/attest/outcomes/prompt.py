"""What came of one prompt: for each run its scores, the reply and what share of the tokens was kept."""
import dataclasses
import json
from dataclasses import dataclass

from ..base.stored_text import storable

NOT_SCORED = 2
MOST = {"kept_ratio": 1, "num_tokens": 2**31 - 1}  # others are scores


@dataclass
class Outcome:
    exact: int  # 0, 1, or NOT_SCORED
    contains: int
    prefix: int
    reply: str
    kept_ratio: float
    num_tokens: int  # of the reply

    def right(self):
        """Whether the answer counts: it is in the reply, or begins it where replies are not scored."""
        return (self.prefix if self.contains == NOT_SCORED else self.contains) == 1


@dataclass
class PromptOutcomes:
    name: str
    task: str
    answer: str
    num_tokens: int
    outcomes: list  # of Outcome, one per run

    def to_json(self):
        """The form in the folder of unfinished outcomes."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text):
        """Raises ValueError, TypeError or KeyError for what to_json did not write."""
        fields = json.loads(text)
        fields["outcomes"] = [_checked(Outcome(**outcome)) for outcome in fields["outcomes"]]
        return _checked(cls(**fields))


def _checked(value):
    """Refuses fields of other types, and values that write_outcomes cannot store."""
    for field in dataclasses.fields(value):
        found = getattr(value, field.name)
        if not isinstance(found, field.type) or isinstance(found, bool):
            raise TypeError(f"{field.name} is {found!r}")
        if isinstance(found, str) and found != storable(found):
            raise ValueError(f"{field.name} is no text that HDF5 can hold")
        if isinstance(found, (int, float)) and not 0 <= found <= MOST.get(field.name, NOT_SCORED):
            raise ValueError(f"{field.name} is {found}")
    return value
