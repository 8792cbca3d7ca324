"""Settings as the program writes them, in models and in config.yaml: sections of `key: value`, a value a line."""

from __future__ import annotations

import re
from typing import Any

ITEM = r'"(?:[^"\\]|\\.)*"|[^,\s\[\]"][^,\]]*'


def read_scalar(text: str) -> Any:
    if text.startswith('"'):
        return re.sub(r"\\(x([0-9a-f]{2})|.)", lambda m: chr(int(m[2], 16)) if m[2] else m[1], text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def read_value(text: str) -> Any:
    if text.startswith("["):
        return [read_scalar(item.strip()) for item in re.findall(ITEM, text[1:-1])]
    return read_scalar(text)


def parse_settings(text: str, source: str) -> dict[str, Any]:
    """All settings, nested by section: quantizer.ema.decay is settings["quantizer"]["ema"]["decay"]."""
    settings: dict[str, Any] = {}
    section = settings
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = re.fullmatch(r"(  )?([\w.]+):(?: (.+))?", line.rstrip())
        if not found:
            raise ValueError(f"{source}:{number}: no setting as nsvq writes them: {line.strip()!r}")
        indented, key, value = found.groups()
        node = section if indented else settings
        *outer, last = key.split(".")
        for part in outer:
            node = node.setdefault(part, {})
        if value is None:
            section = node.setdefault(last, {})
        else:
            node[last] = read_value(value)
    return settings
