"""Variable tracking (vt): chains of assignments, each variable got from the one before; which ones have this value?"""
import string

from .episode import Episode, Line, different, line_with, scattered

CHAINS = 2
HOPS = 4  # assignments from variable to variable, of each chain


def _chain(names, value):
    sources = [value] + [f"VAR {name}" for name in names]
    return [f"VAR {name} = {source}" for name, source in zip(names, sources)]


def variable_tracking(_, __, rng):
    """Chains of assignments, mixed; the variables that one value reaches are asked for."""
    names = different(CHAINS * (HOPS + 1), lambda: "".join(rng.choices(string.ascii_uppercase, k=5)))
    values = different(CHAINS, lambda: str(rng.randrange(10_000, 100_000)))
    chains = [names[i * (HOPS + 1):(i + 1) * (HOPS + 1)] for i in range(CHAINS)]
    turns = [i for i in range(CHAINS) for _ in range(HOPS + 1)]
    rng.shuffle(turns)  # the chains mixed, each in its own order
    waiting = [iter(_chain(chain, value)) for chain, value in zip(chains, values)]
    texts = [next(waiting[i]) for i in turns]
    lines = [line_with("", text, "\n") if i == 0 else Line(text + "\n") for i, text in zip(turns, texts)]
    question = (f"\nQuestion: Which variables are assigned the value {values[0]}?\n"
                "Answer: The variables are:")
    return Episode(lines, scattered(rng, len(lines)), question, ", ".join(chains[0]), [values[0], *chains[0]])
