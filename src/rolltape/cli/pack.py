"""`rolltape pack`: join the small videos that recording leaves."""

from __future__ import annotations

from rolltape.cli.flags import Json, Source
from rolltape.cli.printing import bytes_text, print_json, print_text

__all__ = ["pack"]


def pack(source: Source, /, *, json: Json = False) -> int:
    """Join the small video files that recording leaves. Packets are copied, nothing is encoded again.

    Args:
        source: The dataset: a folder, or a repo id below $HF_LEROBOT_HOME.
        json: Print one JSON object and nothing else.
    """
    from rolltape.read import find_root
    from rolltape.write import Writer

    with Writer.resume(find_root(source)) as writer:
        joined, written = writer.pack(), writer.bytes_written
    if json:
        print_json({"joined": joined, "bytes_written": written})
    elif joined:
        print_text([f"{joined} videos joined, {bytes_text(written)} written."])
    else:
        print_text(["There is nothing to join."])
    return 0
