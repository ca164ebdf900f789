"""Key-value recall (kv): a block of hexadecimal keys and values, one of which is asked for."""
from .episode import Episode, Line, different, in_a_block, line_with


def key_value(count, _, rng):
    """An episode of `count` pairs of hexadecimal strings in one block; the value of one key is asked for."""
    strings = different(2 * count, lambda: f"{rng.getrandbits(32):08x}")  # no key is another's value
    keys, values = strings[:count], strings[count:]
    asked = rng.randrange(count)
    lines = [line_with(f"{k}: ", v, "\n") if i == asked else Line(f"{k}: {v}\n")
             for i, (k, v) in enumerate(zip(keys, values))]
    question = f"\nQuestion: value of {keys[asked]}?\nAnswer: {keys[asked]}:"
    return Episode(lines, in_a_block(rng, count), question, values[asked], [keys[asked], values[asked]])
