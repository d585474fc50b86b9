"""What the configurations of all built-in models share: checked parts, and settings that round-trip to YAML."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any, ClassVar, Self

import yaml
from transformers import PreTrainedConfig

from workbench.errors import ConfigError, did_you_mean
from workbench.models.parts import make_part, require
from workbench.records import check_value
from workbench.yaml_reader import parse

__all__ = ["BuiltInConfig"]


class BuiltInConfig(PreTrainedConfig):
    """A vocabulary, a width, special ids, and parts: fields whose default is made by a frozen record.

    A subclass declares its parts as ``depth: DepthConfig = field(default_factory=DepthConfig)``, names plain
    fields beside them in :attr:`plain`, and says in :meth:`_check` what one part alone cannot know. Parts may be
    given as records or as dictionaries. Raises :class:`~workbench.errors.ConfigError`.

    ``tie_word_embeddings``: the output layer is the token table (Press and Wolf 2017, section 3).
    """

    vocab_size: int = 32000
    hidden_size: int = 512
    dropout: float = 0.0
    classifier_dropout: float | None = None
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    decoder_start_token_id: int | None = None

    keys_to_ignore_at_inference: ClassVar[list[str]] = ["cache"]

    plain: ClassVar[dict[str, Any]] = {
        **{"vocab_size": int, "hidden_size": int, "dropout": float, "tie_word_embeddings": bool},
        **{"pad_token_id": int | None, "bos_token_id": int | None, "eos_token_id": int | list | None},
        **{"decoder_start_token_id": int | None, "initializer_range": float},
    }
    """Fields beside the parts that define the architecture, and their types."""

    def __post_init__(self, **kwargs: Any) -> None:
        for name, part in self.parts().items():
            setattr(self, name, make_part(part, name, getattr(self, name)))
        super().__post_init__(**kwargs)
        for name, hint in self.plain.items():
            check_value(name, getattr(self, name), hint)
        require(self.vocab_size >= 1, "vocab_size", self.vocab_size, "1 or more")
        require(self.hidden_size >= 1, "hidden_size", self.hidden_size, "1 or more")
        require(0.0 <= self.dropout < 1.0, "dropout", self.dropout, "from 0 up to, not including, 1")
        self._check()

    def _check(self) -> None:
        """What one part alone cannot know; for subclasses."""

    @classmethod
    def parts(cls) -> dict[str, type]:
        """The record of each part, by the name of its field."""
        made_by = {name: f.default_factory for name, f in cls.__dataclass_fields__.items()}
        return {n: part for n, part in made_by.items() if isinstance(part, type) and is_dataclass(part)}

    def check_length(self, length: int) -> None:
        """Raise :class:`~workbench.errors.ConfigError` if the model cannot read ``length`` tokens."""

    @property
    def num_hidden_layers(self) -> int:
        """Layers; of the decoder, where there is an encoder too."""
        raise NotImplementedError

    @property
    def num_attention_heads(self) -> int:
        """Attention heads of each layer; 0 without attention."""
        return 0

    @property
    def max_position_embeddings(self) -> int | None:
        """The longest sequence that the configuration is meant for, in tokens; ``None`` without such a limit."""
        return None

    def layer_counts(self) -> str:
        """Layers as shown in tables: of the encoder and the decoder, where there are both."""
        return str(self.num_hidden_layers)

    def diagram(self) -> str:
        """The part that repeats, drawn with text."""
        return f"{self.num_hidden_layers} layers of width {self.hidden_size}"

    def attention_flops(self, length: int) -> int:
        """Operations per token beside those of the weights: scores and sums over ``length`` tokens."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries all the way down, fit for JSON and YAML."""
        plain = super().to_dict()
        return {
            name: asdict(v) if is_dataclass(v) and not isinstance(v, type) else v for name, v in plain.items()
        }

    def settings(self) -> dict[str, Any]:
        """The settings that define the architecture; :meth:`from_settings` takes them."""
        settings = self.to_dict()
        first = ["model_type", "vocab_size", "hidden_size", *self.parts()]
        names = [*first, *(name for name in self.plain if name not in first)]
        return {n: settings[n] for n in names if settings.get(n) is not None}

    def to_yaml(self) -> str:
        """:meth:`settings` as YAML; :meth:`from_yaml` reads them."""
        return yaml.safe_dump(self.settings(), sort_keys=False)

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """The configuration written by :meth:`to_yaml`, of the class that its ``model_type`` names."""
        return cls.from_settings(parse(text, "the configuration"))

    @classmethod
    def from_settings(cls, settings: Any, where: str = "the configuration") -> Self:
        """The configuration of this class or of the one below it that ``model_type`` names.

        Raises :class:`~workbench.errors.ConfigError`, naming ``where`` if it is no mapping of settings.
        """
        require(isinstance(settings, dict), where, settings, "a mapping of settings")
        by_type = cls._by_type()
        model_type = str(settings.get("model_type"))
        require(model_type in by_type, "model_type", model_type, ", ".join(by_type))
        known = list(by_type[model_type]().to_dict())
        for name in settings:
            if name not in known:
                raise ConfigError(f"{where}: unknown setting {name!r}; {did_you_mean(str(name), known)}")
        return by_type[model_type](**{k: v for k, v in settings.items() if k != "model_type"})

    @classmethod
    def _by_type(cls) -> dict[str, type[Self]]:
        """This class and those below it that name a ``model_type``."""
        found = {cls.model_type: cls} if cls.model_type else {}
        for below in cls.__subclasses__():
            found |= below._by_type()
        return found
