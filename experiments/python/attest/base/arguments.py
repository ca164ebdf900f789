"""The parser of command lines, and types of options that several commands take."""
import argparse
import re

from .errors import UsageError
from .printing import print_report

ABOVE_0 = "0*[1-9][0-9]*"


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """One sentence, without argparse's usage text, and the program's own exit code."""
        raise UsageError(f"{message} (--help lists the options)")

    def _print_message(self, message, file=None):  # the help; argparse drops what cannot be written
        print_report(message.removesuffix("\n"))


def argument(expected):
    """Makes a type for argparse of a function that raises ValueError: its message tells what is expected."""
    def decorate(parse_text):
        def checked(text):
            try:
                return parse_text(text)
            except ValueError:
                raise argparse.ArgumentTypeError(f"'{text}' is not {expected}") from None
        return checked
    return decorate


@argument("a file's name")
def file_name(text):
    """Parses the name of a file: an empty one would be taken for the working folder."""
    if not text:
        raise ValueError
    return text


def digits(pattern, text):
    """The number that a text of this pattern is. int() alone takes "1_0" and digits of other scripts."""
    if not re.fullmatch(pattern, text):
        raise ValueError
    return int(text)


@argument("a whole number")
def whole_number(text):
    """Parses a number that may be below 0; Python's int() would also take "1_000" and other alphabets' digits."""
    return digits("-?[0-9]+", text)


@argument("a whole number above 0")
def count(text):
    """Parses a number above 0."""
    return digits(ABOVE_0, text)


@argument("a list of layers such as 0,4,8-11")
def layer_list(text):
    """[(first, last), ...]; "2-" is (2, None), which means up to the model's last layer."""
    if not re.fullmatch(r"\d+(-\d*)?(,\d+(-\d*)?)*", text, re.ASCII):
        raise ValueError
    ranges = []
    for item in text.split(","):
        first, dash, last = item.partition("-")
        ranges.append((int(first), int(last) if last else None if dash else int(first)))
        if last and int(last) < int(first):
            raise ValueError
    return ranges


def refuse_missing_layer(layer, num_layers, where, kind):
    """`where` begins the sentence of the error, which is of the type `kind`."""
    if layer >= num_layers:
        raise kind(f"{where}there is no layer {layer}, the model has {num_layers}")


def chosen_layers(ranges, num_layers, where="--layers: "):
    """The layer numbers that `ranges` (of layer_list) means for a model of `num_layers` layers."""
    refuse_missing_layer(max(first if last is None else last for first, last in ranges), num_layers, where, UsageError)
    return {layer for first, last in ranges
            for layer in range(first, num_layers if last is None else last + 1)}
