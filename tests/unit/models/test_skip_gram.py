"""Skip-gram: its loss by hand, pairs, the noise distribution, subsampling, neighbours, training, probing, refusals."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModel, AutoModelForPreTraining

import workbench
import workbench.models.auto
from probes.features import extract
from tests.unit.tiny import loaded, word_tokenizer
from workbench.analysis.neighbours import nearest_neighbours
from workbench.cli import cli
from workbench.errors import ConfigError, DataError, ModelError
from workbench.models import Kind
from workbench.models.ancestors.skip_gram import SkipGramConfig, SkipGramModel, SkipGramPairs
from workbench.training.objectives import Draw, SkipGram, SpecialIds, terms_of
from workbench.training.objectives.skip_gram import kept_shares, noise_distribution

COUNTS = np.array([50, 50, 0, 0, 8, 4, 2, 1, 1])
SPECIAL = SpecialIds(vocab_size=9, pad=0, bos=1, reserved=frozenset(range(4)), counts=COUNTS)


def draw(ids: list[int], seed: int = 0) -> Draw:
    nothing = np.array([], dtype=np.int64)
    return Draw(np.array(ids), nothing, nothing, (0, seed))


def pairs(**options: Any) -> SkipGram:
    return SkipGram(SPECIAL, 16, **{"subsample": 0.0, **options})


def model(vocabulary: int = 9, width: int = 4) -> Any:
    torch.manual_seed(0)
    found = SkipGramPairs(SkipGramConfig(vocab_size=vocabulary, hidden_size=width, pad_token_id=0))
    torch.nn.init.normal_(found.neighbours.weight)
    return found.eval()


def test_the_loss_is_equation_4() -> None:
    """Written out for each pair; a drawn word that is the neighbour counts for nothing, and padding neither."""
    found = model()
    ids = torch.tensor([[4, 5, 0]])
    labels, drawn = torch.tensor([[5, 6, -100]]), torch.tensor([[[6, 5], [7, 8], [4, 4]]])
    output = found(ids, labels, drawn)
    words = found.model.tokens.weight.detach().double().numpy()
    others = found.neighbours.weight.detach().double().numpy()

    def log_sigmoid(value: float) -> float:
        return -math.log1p(math.exp(-value))

    first = -log_sigmoid(others[5] @ words[4]) - log_sigmoid(-others[6] @ words[4])
    second = -log_sigmoid(others[6] @ words[5]) - sum(log_sigmoid(-others[k] @ words[5]) for k in (7, 8))
    np.testing.assert_allclose(output.losses.detach()[0], [first, second, 0.0], rtol=1e-5)
    assert output.loss.item() == pytest.approx((first + second) / 2, rel=1e-5)
    assert found(ids, labels, drawn, num_items_in_batch=8).loss.item() == pytest.approx((first + second) / 8)
    (term,) = terms_of(found, {"input_ids": ids, "labels": labels, "negative_ids": drawn}, "")
    assert term.scored.tolist() == [[True, True, False]]
    right = [others[5] @ words[4] > max(others[k] @ words[4] for k in (6, 5))]
    assert term.right is not None
    assert term.right[0, :1].tolist() == right


def test_a_new_model_knows_nothing() -> None:
    """Vectors of neighbours are zero, so that each of 1 + K decisions costs log 2."""
    torch.manual_seed(0)
    fresh = SkipGramPairs(SkipGramConfig(vocab_size=9, hidden_size=4))
    assert fresh.neighbours.weight.abs().max() == 0
    assert 0 < fresh.model.tokens.weight.abs().max() <= 0.5 / 4
    loss = fresh(torch.tensor([[4]]), torch.tensor([[5]]), torch.tensor([[[6, 7, 8]]])).loss
    assert loss.item() == pytest.approx(4 * math.log(2))


def test_noise_is_the_unigram_distribution_to_the_power_of_three_quarters() -> None:
    found = noise_distribution(np.array([16, 1, 0, 81]))
    np.testing.assert_allclose(found, np.array([8, 1, 0, 27]) / 36)


def test_words_are_drawn_by_it() -> None:
    """18,000 draws: shares within four standard errors; special ids never."""
    objective = pairs(negatives=100)
    batch = objective([draw([4, 5, 6, 7] * 4, seed) for seed in range(4)])
    drawn = batch["negative_ids"][batch["labels"] != -100].numpy().ravel()
    expected = noise_distribution(np.where(np.arange(9) < 4, 0, COUNTS))
    shares = np.bincount(drawn, minlength=9) / len(drawn)
    assert shares[:4].sum() == 0
    assert (np.abs(shares - expected) <= 4 * np.sqrt(expected * (1 - expected) / len(drawn))).all()


def test_frequent_words_are_left_out_by_equation_5() -> None:
    """An occurrence stays with chance sqrt(t / f): 0.1 and 1 for shares of 0.9 and 0.009 at t = 0.009."""
    np.testing.assert_allclose(kept_shares(np.array([900, 9, 91]), 0.009)[:2], [0.1, 1.0])
    np.testing.assert_allclose(kept_shares(np.array([900, 9, 91]), 0.0), 1.0)
    counts = COUNTS.copy()
    counts[:4] = 0
    objective = SkipGram(SPECIAL, 512, window=1, subsample=0.05)
    np.testing.assert_allclose(objective.kept, kept_shares(counts, 0.05))
    kept = 0
    for seed in range(40):
        words = objective([draw([4] * 100, seed)])["input_ids"][0].numpy()
        kept += (words == 4).sum() / 2 + 1  # n words make 2 (n - 1) pairs at window 1
    chance = math.sqrt(0.05 / 0.5)
    assert abs(kept / 4000 - chance) <= 4 * math.sqrt(chance * (1 - chance) / 4000)


def test_neighbours_are_within_the_window_and_never_the_place_itself() -> None:
    ids = [4, 5, 6, 7, 8]
    found = Counter()
    for seed in range(400):
        batch = pairs(window=2)([draw(ids, seed)])
        is_pair = batch["labels"][0] != -100
        found.update(
            zip(batch["input_ids"][0][is_pair].tolist(), batch["labels"][0][is_pair].tolist(), strict=True)
        )
    for word, neighbour in found:
        assert 1 <= abs(word - neighbour) <= 2
    assert {found[pair] for pair in found if abs(pair[0] - pair[1]) == 1} == {400}
    far = [count for pair, count in found.items() if abs(pair[0] - pair[1]) == 2]
    assert len(far) == 6
    assert all(abs(count - 200) <= 4 * 10 for count in far)  # the window is 2 in half of the draws


def test_special_ids_are_no_words_and_rows_are_padded() -> None:
    batch = pairs(window=1)([draw([1, 4, 0, 5]), draw([4]), draw([4, 5, 6])])
    assert batch["input_ids"].tolist() == [[4, 5, 0, 0], [0, 0, 0, 0], [4, 5, 5, 6]]
    assert batch["labels"].tolist() == [[5, 4, -100, -100], [-100] * 4, [5, 4, 6, 5]]
    assert batch["negative_ids"].shape == (3, 4, 5)
    again = pairs(window=1)([draw([4, 5, 6])])
    assert torch.equal(again["negative_ids"][0], batch["negative_ids"][2])  # the draw's seed decides


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window is 0; allowed: 1 or more"),
        ({"negatives": 0}, "negatives is 0; allowed: 1 or more"),
        ({"subsample": 1.0}, "subsample is 1.0; allowed: from 0"),
    ],
)
def test_impossible_settings_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pairs(**options)


def folder(path: Path) -> Path:
    model(vocabulary=len(word_tokenizer())).save_pretrained(path)
    word_tokenizer().save_pretrained(path)
    return path


def test_saved_loaded_probed_and_refused_what_it_cannot_do(tmp_path: Path) -> None:
    where = folder(tmp_path / "words")
    whole = AutoModelForPreTraining.from_pretrained(where)
    assert torch.equal(whole.neighbours.weight, model(vocabulary=len(word_tokenizer())).neighbours.weight)
    assert type(AutoModel.from_pretrained(where)) is SkipGramModel
    found = workbench.load(str(where), device="cpu")
    assert found.kind is Kind.ENCODER
    features = extract(found, ["the cat sat", "the mat"], out=tmp_path / "features")
    assert features.layers == (0,)
    ids = found.tokenizer("the cat sat the mat").input_ids
    np.testing.assert_allclose(features.layer(0), found.model.tokens.weight.detach()[ids], rtol=1e-6)
    with pytest.raises(ModelError, match="a vector, the same wherever it stands, and no text a probability"):
        workbench.score(found, "the cat", " sat")


def test_nearest_neighbours_by_hand() -> None:
    tokenizer = word_tokenizer()
    words = SkipGramModel(SkipGramConfig(vocab_size=len(tokenizer), hidden_size=2))
    angles = torch.linspace(0, 2.5, len(tokenizer))
    words.tokens.weight.data = torch.stack((angles.cos(), angles.sin()), -1)  # ids in a row, on a circle
    words.tokens.weight.data[::2] *= 3.0  # length does not matter
    found = nearest_neighbours(loaded(words, Kind.ENCODER, tokenizer), "key", count=3)
    (middle,) = tokenizer("key").input_ids
    near = {middle - 1, middle + 1, middle - 2, middle + 2}
    named = {tokenizer.convert_tokens_to_ids(str(token)) for token in found.labels["token"]}
    assert len(named) == 3
    assert named < near
    assert found.values[0] == pytest.approx(math.cos(2.5 / (len(tokenizer) - 1)), rel=1e-5)
    with pytest.raises(DataError, match="' ' has no tokens; give a word"):
        nearest_neighbours(loaded(words, Kind.ENCODER, tokenizer), " ")
    with pytest.raises(ConfigError, match="count is 0; allowed: 1 or more"):
        nearest_neighbours(loaded(words, Kind.ENCODER, tokenizer), "key", count=0)


def train(tmp_path: Path, *options: str) -> Any:
    corpus = tmp_path / "corpus.txt"
    rng = np.random.default_rng(0)
    # red and blue stand in one kind of sentence, dogs and cats in another
    kinds = [("the %s car is old .", ("red", "blue")), ("my %s ran and ate", ("dogs", "cats"))]
    lines = (kinds[n % 2][0] % kinds[n % 2][1][rng.integers(2)] for n in range(600))
    corpus.write_text("\n".join(lines))
    shared = f"--corpus {corpus} --tokenizer {tmp_path / 'tokenizer'} --device cpu --report-to none"
    return CliRunner().invoke(cli, ["train", *options, *shared.split()])


def test_trained_by_the_command_words_of_one_kind_are_neighbours(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = [
        "<pad>",
        "<s>",
        "</s>",
        "<unk>",
        "the",
        "red",
        "blue",
        "car",
        "is",
        "old",
        ".",
        "my",
        "dogs",
        "cats",
        "ran",
        "and",
        "ate",
    ]
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(tmp_path / "tokenizer")
    out = tmp_path / "words"
    options = (
        "--preset skip-gram-tiny --set width=16 --objective skip-gram --window 2 --negatives 3 --subsample 0"
    )
    options += f" --length 32 --steps 80 --batch-size 16 --lr 0.05 --out {out}"
    run = train(tmp_path, *options.split())
    assert run.exit_code == 0, run.output
    model = workbench.load(str(out), device="cpu")
    for word, other in (("red", "blue"), ("dogs", "cats")):
        assert nearest_neighbours(model, word, count=1).labels["token"] == (other,)
    loss = workbench.runs.Run.open(out).results["training"]["loss"].value
    assert loss < 0.75 * 4 * math.log(2)  # what a model that knows nothing has
    further = train(
        tmp_path, *f"--model {out} --objective skip-gram --length 32 --steps 1 --out {out}-2".split()
    )
    assert further.exit_code == 0, further.output
    for options, message in (
        (
            "--preset bert-tiny --objective skip-gram",
            "trains workbench-skip-gram models, and the configuration is a",
        ),
        ("--preset skip-gram-tiny --objective bidirectional-lm", "trains workbench-elmo models"),
        (f"--model {out} --objective bidirectional-lm", "trains workbench-elmo models, and"),
        ("--preset bert-tiny --objective mlm --window 3", "go with --objective skip-gram, not with mlm"),
    ):
        refused = train(tmp_path, *options.split(), "--length", "32", "--out", str(tmp_path / "no"))
        assert isinstance(refused.exception, ConfigError)
        assert message in str(refused.exception)
