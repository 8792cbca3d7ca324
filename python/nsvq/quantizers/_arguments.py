"""Errors about arguments: one line that names the argument and what to do."""

import inspect
from typing import Any, Mapping

Refused = Mapping[str, tuple[tuple[Any, ...], str]]
"""For each argument of vector-quantize-pytorch that has no counterpart: the values that ask for nothing, and what to use."""


def refuse(owner: str, given: Mapping[str, Any], refused: Refused, takes: Any) -> None:
    """Raises for each argument in `given` that asks for something: ValueError if `refused` has it, else TypeError.

    `takes` is the function whose arguments the error lists.
    """
    for name, value in given.items():
        if name not in refused:
            known = [p.name for p in inspect.signature(takes).parameters.values()
                     if p.name != "self" and p.kind != p.VAR_KEYWORD]
            raise TypeError(f"{owner}: unknown argument '{name}'; it takes {', '.join(known)}")
        neutral, instead = refused[name]
        if not any(value is one or (type(value) in (bool, int, float) and value == one) for one in neutral):
            raise ValueError(f"{owner}: {name} is not supported; {instead}")


def check_count(owner: str, name: str, value: Any, least: int = 1) -> int:
    """`value` if it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{owner}: {name} must be an integer of at least {least}, but it is {value!r}")
    return value


def check_number(owner: str, name: str, value: float, least: float, most: float = float("inf")) -> float:
    """`value` if it lies between `least` and `most`."""
    if not least <= value <= most:
        bounds = f"at least {least:g}" if most == float("inf") else f"between {least:g} and {most:g}"
        raise ValueError(f"{owner}: {name} must be {bounds}, but it is {value!r}")
    return value
