"""Text for people: what data holds, made safe to print, and sizes in words.

Nothing that is safe can move the cursor, color the screen or turn the line around.
"""

from __future__ import annotations

import re

# Controls (C0, DEL, C1), the marks that change the direction of text, the two line ends that are not ASCII, halves of
# characters, and the tag characters that nobody sees. Joiners stay: emoji and many scripts need them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def make_printable(text: str, keep: str = "") -> str:
    r"""Return `text` with its unsafe characters spelled out, as \x1b; those in `keep` stay."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _spell(ord(found[0])), text)


def describe_size(n_bytes: int) -> str:
    """Return a number of bytes in words: 3.1 MB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} bytes"


def _spell(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
