"""The former name of :mod:`workbench.data.files`."""

from workbench.data.files import check_text, find_file, read_jsonl, read_lines, text_field

__all__ = ["check_text", "find_file", "read_jsonl", "read_lines", "text_field"]
