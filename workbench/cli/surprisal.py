"""``workbench surprisal``: how many bits each word of a text carries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import (
    BUDGET,
    COUNT,
    PATH,
    load_named,
    model_line,
    model_options,
    model_record,
    prompt_options,
    saved,
)
from workbench.errors import WorkbenchError
from workbench.paths import check_output, user_path
from workbench.terminal import counted, say, say_json, shows_progress

if TYPE_CHECKING:
    import pandas as pd

    from workbench.models import LoadedModel
    from workbench.scoring import Detections, Surprisals
    from workbench.scoring.regions import RegionText

__all__ = ["command"]

_ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".parquet", ".conllu")
_FIGURES = (".html", ".svg", ".png", ".pdf", ".tex")
_SHOWN = 20
_COLUMNS = ("word", "bits", "entropy", "rank", "tokens")


@click.command(name="surprisal")
@click.argument("model")
@click.argument("source", metavar="TEXT|FILE")
@click.option("--text-column", help="Of a table; default sentence or text.")
@click.option("--region-column", help="Of a table: word numbers from 0 (4 or 4-6), or a phrase of the text.")
@click.option("--limit", type=COUNT, help="Only the first N texts.")
@click.option(
    "--word-boundary",
    default="leading",
    show_default=True,
    help="The white space between words counts to the word after it (leading) or before it (trailing).",
)
@click.option("--first-token", default="auto", show_default=True, help="auto, bos, prefix or unscored.")
@click.option("--masking", default="original", show_default=True, help="original or within_word_l2r.")
@click.option("--batch-tokens", type=BUDGET, default="auto", show_default=True, help="Of one forward pass.")
@click.option("--out", type=PATH, help="File: .csv, .tsv or .jsonl; drawn: .html, .svg, .png, .pdf or .tex.")
@prompt_options
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str, source: str, as_json: bool, **options: Any) -> None:
    """Show how many bits each word of a text carries for MODEL, before and at the word: a row a word.

    The text is given in quotes, or as a FILE: .txt (one text a line), .conllu, .csv, .tsv, .jsonl or .parquet,
    or hub:owner/name[@revision][:configuration[:split]]. The
    entropy and the rank are those of the word's first token. A masked model predicts each token from both sides. Bits
    of words by the rule of Pimentel & Meister (2024) with --word-boundary trailing.

    For a discriminator (ELECTRA), which predicts no token, show how probable it is that each token was replaced.

    \b
    workbench surprisal smollm2-135m "The horse raced past the barn fell."
    workbench surprisal smollm2-135m sentences.csv --region-column region --out words.csv
    workbench surprisal smollm2-135m sentences.csv --out sentences.html
    """
    sentences = _sentences(source, options)
    if options["out"] is not None:
        check_output(options["out"], (".csv", ".tsv", ".jsonl", *_FIGURES))
    from workbench.choices import member
    from workbench.errors import ConfigError
    from workbench.models import Kind
    from workbench.scoring import Surprisals, WordBoundary, surprisal
    from workbench.scoring.regions import region_table

    member(WordBoundary, options["word_boundary"], "word boundary", ConfigError)
    loaded = load_named(model, options)
    if loaded.kind is Kind.DETECTOR:
        _show_replaced(loaded, sentences, options, as_json=as_json)
        return
    names = ("first_token", "masking", "word_boundary", "batch_tokens")
    found = surprisal(
        loaded,
        [s.text for s in sentences],
        **{name: options[name] for name in names},
        progress=shows_progress(),
    )
    assert isinstance(found, Surprisals)
    regions = region_table(sentences, found) if options["region_column"] else None
    words = _words(sentences, found)
    path = _save(words, found, options["out"])
    if as_json:
        record = {
            "file": None if path is None else str(path),
            "model": model_record(loaded),
            "policy": found[0].policy,
            "words": _records(words),
            "regions": None if regions is None else _records(regions),
        }
        say_json(record)
        return
    say(f"{model_line(loaded)}: {counted(len(words), 'word')}, {found[0].policy}\n")
    _print(words, regions)
    say(f"\n{path}" if path else "\nwrite all of it with --out words.csv, draw them with --out text.html")


def _sentences(source: str, options: dict[str, Any]) -> list[RegionText]:
    from workbench.data.hub import is_hub_name
    from workbench.scoring.regions import RegionText, read_sentences

    if not source.strip():
        raise WorkbenchError("the text is empty; give a text in quotes, or a file")
    path = user_path(source) if len(source) < 256 and "\n" not in source else None
    if path is not None and (path.suffix in _ENDINGS or is_hub_name(path) or path.is_file()):
        names = {"text": options["text_column"], "region": options["region_column"]}
        return read_sentences(path, limit=options["limit"], **names)
    for name in ("text_column", "region_column"):
        if options[name] is not None:
            raise WorkbenchError(
                f"--{name.replace('_', '-')} is of a FILE; {source[:40]!r} is read as a text"
            )
    return [RegionText(source)]


def _words(sentences: list[RegionText], found: Surprisals) -> pd.DataFrame:
    from workbench.scoring.regions import region_words

    words = found.to_frame()
    if sentences[0].region is not None:
        inside = {
            (number, word)
            for number, (sentence, one) in enumerate(zip(sentences, found, strict=True))
            for word in region_words(str(sentence.region), one, sentence.where)
        }
        words["in_region"] = [
            pair in inside for pair in zip(words["text"], words["word_number"], strict=True)
        ]
    for name in sentences[0].cells:
        own = [sentence.cells.get(name) for sentence in sentences]
        words[name if name not in words else f"row_{name}"] = [own[number] for number in words["text"]]
    return words


def _show_replaced(
    model: LoadedModel, sentences: list[RegionText], options: dict[str, Any], *, as_json: bool
) -> None:
    """What a discriminator makes of each token, a row a token, and of each text."""
    from workbench.scoring import Detections, detect_replaced

    if options["region_column"] is not None:
        raise WorkbenchError(
            f"--region-column goes with models that predict tokens; {model.name} says which were replaced"
        )
    budget = options["batch_tokens"]
    texts = [sentence.text for sentence in sentences]
    found = detect_replaced(model, texts, batch_tokens=budget, progress=shows_progress())
    assert isinstance(found, Detections)
    tokens = found.to_frame()
    path = _save(tokens, found, options["out"])
    means = [one.mean_log_original for one in found]
    if as_json:
        scores = {"policy": found[0].policy, "mean_log_original": means, "tokens": _records(tokens)}
        say_json({"file": None if path is None else str(path), "model": model_record(model), **scores})
        return
    say(f"{model_line(model)}: {counted(len(tokens), 'token')}, {found[0].policy}\n")
    names = [*(["text"] if len(found) > 1 else []), "token", "word", "replaced"]
    _print_rows(names, tokens[names])
    say(f"\nmean log p(original): {', '.join(f'{mean:.3f}' for mean in means[:_SHOWN])}")
    say(f"\n{path}" if path else "\nwrite all of it with --out tokens.csv, draw them with --out text.html")


def _save(words: pd.DataFrame, found: Surprisals | Detections, out: Path | None) -> Path | None:
    from workbench.runs import write_atomically

    if out is None:
        return None
    if out.suffix in _FIGURES:
        return saved(found.figure(), out)
    if out.suffix == ".jsonl":
        text = words.to_json(orient="records", lines=True, force_ascii=False)
    else:
        text = words.to_csv(index=False, sep="\t" if out.suffix == ".tsv" else ",")
    write_atomically(out, text.encode("utf-8"))
    return out


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(key): None if value != value else value for key, value in row.items()}
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]


def _print(words: pd.DataFrame, regions: pd.DataFrame | None) -> None:
    shown = words if regions is None else regions
    columns = [*(["text"] if words["text"].nunique() > 1 else []), *_COLUMNS]
    chosen = shown[columns] if regions is None else regions
    names = [f"{name} (bits)" if name == "entropy" else name for name in chosen.columns]
    _print_rows(names, chosen)


def _print_rows(names: list[str], rows: pd.DataFrame) -> None:
    from workbench.cli._tables import table

    say(table(names, (_cells(row) for row in rows.head(_SHOWN).itertuples(index=False))))
    if len(rows) > _SHOWN:
        say(f"... {counted(len(rows) - _SHOWN, 'more row')}")


def _cells(row: Any) -> list[object]:
    return [f"{value:.3f}" if isinstance(value, float) else value for value in row]
