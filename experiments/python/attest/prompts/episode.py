"""One made-up question: lines to hide in a haystack, question, answer, and the parts that tasks make them of."""
from dataclasses import dataclass, field


@dataclass
class Line:
    text: str
    evidence: list = field(default_factory=list)  # of (begin, end) in the text


@dataclass
class Episode:
    lines: list  # of Line, in the order of the text
    places: list  # one per line, ascending: the share of the haystack that stands before it
    question: str  # ends where the answer follows, without white space
    answer: str
    unique: list = field(default_factory=list)  # strings that may occur in no other place than in lines and question


def line_with(before, marked, after):
    """A line whose part `marked` is the evidence."""
    return Line(before + marked + after, [(len(before), len(before) + len(marked))])


def scattered(rng, count):
    """Depths in the text, from 0 to 1, ascending: the lines stand apart."""
    return sorted(rng.random() for _ in range(count))


def in_a_block(rng, count):
    """One depth for all lines, which stand together."""
    return [rng.random()] * count


def different(count, make):
    """`count` different results of make()."""
    made = {}
    while len(made) < count:
        made[make()] = None
    return list(made)


def number(rng):
    """Seven digits, as the needles of RULER have."""
    return str(rng.randrange(1_000_000, 10_000_000))


def key(words, rng):
    """Two words, so that keys are many."""
    return f"{rng.choice(words)}-{rng.choice(words)}"
