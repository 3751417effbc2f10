"""Drafts of schemas, for a person to complete."""

from __future__ import annotations

from pathlib import Path

from click import UsageError

from ..files import write_whole
from ..schema import Schema
from .failures import check_output, reading_data, writing_file


def check_draft(output: Path) -> None:
    """Refuse a place where a draft cannot be written, or would replace a completed schema."""
    if output.suffix != ".toml":
        raise UsageError(f"--output {str(output)!r} must end in .toml")
    if output.exists():
        raise UsageError(f"--output {str(output)!r} exists: a draft would replace a person's work")
    check_output(output)


def draft_schema(data: Path, output: Path | None, header: bool | None) -> str:
    """The draft of a file's schema, written if there is an output."""
    with reading_data():
        text = Schema.draft(data, header)
    if output is not None:
        with writing_file(output), write_whole(output) as temporary:
            temporary.write_text(text, "utf-8")
    return text
