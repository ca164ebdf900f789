"""What came of one prompt: for each run its scores, the reply and what share of the tokens was kept."""
import dataclasses
import json
from dataclasses import dataclass

from ..base.errors import AttestError, InputError
from ..base.stored_text import storable
from ..prompts.scoring import score

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


def answer_text(answers, prompt, tokenized):
    """The text that replies are scored by."""
    text = prompt.answer if isinstance(prompt.answer, str) else answers.text(tokenized.answer)
    if not tokenized.answer or not text.strip():
        raise InputError(f"{prompt.where}: no \"answer\", or an empty one, and a reply is scored by it")
    return text


def measure(answers, runs, prompt, tokenized, cache, options, more_tokens):
    """Runs every run on a prompt whose tokens but the last are in the cache."""
    known, outcomes = answer_text(answers, prompt, tokenized), []
    for run in runs:
        try:
            answers.choose(run)
            if options.forced:
                reply = answers.forced(cache, tokenized.ids, tokenized.answer)
                scores = (NOT_SCORED, NOT_SCORED, int(reply == tokenized.answer))
                text = answers.text(reply)
            else:
                max_tokens = options.max_new_tokens or len(tokenized.answer) + more_tokens
                reply = answers.greedy(cache, tokenized.ids, known, max_tokens)
                text = answers.text(reply)
                found = score(text, known)
                scores = (int(found.exact), int(found.contains), int(found.prefix))
        except AttestError as error:
            raise type(error)(f"{prompt.name}, {run.name()}: {error}") from error
        kept = 1.0 if run.is_dense else answers.attention.kept_ratio()
        outcomes.append(Outcome(*scores, storable(text), kept, len(reply)))
    return PromptOutcomes(prompt.name, prompt.task, storable(known), len(tokenized.ids), outcomes)
