"""The docs' pages of the findings, one for each id, written from the catalogue.

`python -m rolltape.check.pages docs/findings` writes them.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from rolltape.check.catalogue import Entry, catalogue

__all__ = ["index_page", "page", "pages", "write_pages"]


def page(one: Entry) -> str:
    """Return the page of one finding, as Markdown."""
    mend = (
        "Everything that mending needs is in the dataset itself."
        if one.fixable
        else "Nothing in the dataset can mend it."
    )
    parts = [
        f"# {one.id}",
        f"{one.title}.",
        f"Severity: {one.severity}. {mend}",
        "## What it means",
        one.why,
        "## What to do",
        one.repair,
    ]
    return "\n\n".join(parts) + "\n"


def index_page() -> str:
    """Return the page that lists all findings by group, as Markdown."""
    lines = [
        "# Findings",
        "",
        "What `rolltape check` can find. Ids are stable: one may be added, none is renamed or reused.",
        "",
        "An **error** means that data is lost, unreadable, or read wrongly by some reader; a **warning** that it",
        "works, but not as it should; a **note** is good to know.",
        "Only errors make the exit code 1; `--fail-on warning` changes that.",
    ]
    for group, entries in groupby(catalogue().values(), key=lambda one: one.id.split(".")[0]):
        lines += ["", f"## {group}", "", "| id | severity | what |", "|---|---|---|"]
        lines += [f"| [{one.id}]({one.id}.md) | {one.severity} | {one.title} |" for one in entries]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return all pages, file name to text."""
    return {"README.md": index_page(), **{f"{one.id}.md": page(one) for one in catalogue().values()}}


def write_pages(folder: Path) -> None:
    """Write all pages, and remove those of ids that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for path in folder.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
