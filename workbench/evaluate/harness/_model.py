"""lm-eval's language model interface on our scoring engine."""

from __future__ import annotations

from collections.abc import Sequence as Sequence_
from typing import Any

import torch
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import handle_stop_sequences, has_bos_prefix, normalize_gen_kwargs
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from workbench.choices import DEFAULT_DTYPE
from workbench.errors import DataError, ModelError
from workbench.evaluate.processes import Processes
from workbench.models import Kind, LoadedModel, load
from workbench.scoring import Engine, GenerationRequest, Sequence, collect, generate_texts

__all__ = ["WorkbenchLM"]

_GENERATION = {"do_sample", "temperature", "top_p", "until", "max_gen_toks"}
_IGNORED = {"num_return_sequences", "use_cache"}

Instances = Sequence_[Any]


@register_model("workbench")
class WorkbenchLM(TemplateLM):
    """A causal model loaded by this package, for lm-eval's log-likelihood, rolling and generation requests.

    Tokens, first tokens and truncation follow lm-eval's ``hf`` model, so numbers are equal; batches, shared prefixes
    and the vocabulary projection are ours. ``batch_size`` is taken and not used: batches are made by tokens.
    """

    backend = "causal"

    def __init__(
        self,
        pretrained: str | LoadedModel,
        *,
        revision: str | None = None,
        dtype: str = DEFAULT_DTYPE,
        device: str | None = None,
        implementation: str = "hf",
        batch_tokens: str | int = "auto",
        max_gen_toks: int = 256,
        batch_size: Any = None,
        max_batch_size: Any = None,
    ) -> None:
        super().__init__()
        self.processes = Processes.current()
        if isinstance(pretrained, LoadedModel):
            self.loaded = pretrained.reads(chat=False, system=None)  # lm-eval writes its prompts itself
        else:
            self.loaded = load(
                pretrained,
                revision=revision,
                dtype=dtype,
                device=_device(device),
                implementation=implementation,
            )
        self.loaded.require(Kind.CAUSAL, verb="lm-eval's requests")
        self.tokenizer = self.loaded.tokenizer
        self.batch_tokens = batch_tokens
        self.max_gen_toks = int(max_gen_toks)
        self._device = self.loaded.device

    @property
    def rank(self) -> int:
        """This process among those that lm-eval deals its documents to."""
        return self.processes.rank

    @property
    def world_size(self) -> int:
        """How many processes there are."""
        return self.processes.count

    def all_gather(self, tensor: Any) -> Any:
        """The values of all processes, one after another (lm-eval gathers counts)."""
        return torch.tensor([int(v) for v in self.processes.gather(float(tensor.item()))])

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        """Everything that the processes hold, for the process ``dst``."""
        found = self.processes.gather(obj)
        return found if self.rank == dst else None

    def barrier(self) -> None:
        """Wait for all processes."""
        self.processes.wait()

    @property
    def max_length(self) -> int:
        """Tokens that the model reads."""
        return self.loaded.max_length

    @property
    def eot_token_id(self) -> int:
        """The id that ends a text."""
        return int(self.tokenizer.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        """BOS, or EOS for tokenizers without one: what an empty context stands for."""
        bos = self.tokenizer.bos_token_id
        return int(bos if bos is not None else self.tokenizer.eos_token_id)

    @property
    def tokenizer_name(self) -> str:
        """Name for lm-eval's cache of requests."""
        return str(self.loaded.name).replace("/", "__")

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval writes beside its results."""
        return {
            "model_num_parameters": self.loaded.num_parameters,
            "model_dtype": str(self.loaded.dtype),
            "model_revision": self.loaded.revision or "main",
            "model_sha": self.loaded.content_hash,
        }

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """Ids of a text; special tokens as the tokenizer adds them, unless the text starts with BOS already."""
        if add_special_tokens is None:
            add_special_tokens = not has_bos_prefix(string, self.tokenizer.decode(self.prefix_token_id))
        return list(self.tokenizer.encode(string, add_special_tokens=add_special_tokens))

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The turns as one text, in the tokenizer's template."""
        text = self.tokenizer.apply_chat_template(
            chat_history,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
        return str(text)

    def _loglikelihood_tokens(
        self, requests: list[Any], disable_tqdm: bool = False, **_: Any
    ) -> list[tuple[float, bool]]:
        """Log-likelihood and whether greedy decoding writes it, of ``(texts, context ids, continuation ids)``."""
        sequences = [self._sequence(context, continuation) for _, context, continuation in requests]
        engine = Engine(self.loaded, "unscored", self.batch_tokens, progress=not disable_tqdm)
        scores = engine.score_shared(sequences)
        answers = [(score.log_probability, score.is_greedy) for score in scores]
        for (texts, _, _), answer in zip(requests, answers, strict=True):
            if texts is not None:
                self.cache_hook.add_partial("loglikelihood", texts, answer)
        return answers

    def _sequence(self, context: list[int], continuation: list[int]) -> Sequence:
        """The last ids that the model reads, of which those of the continuation are scored."""
        ids = (*context, *continuation)[-(self.max_length + 1) :]
        start = len(ids) - len(continuation)
        if start < 1 or not continuation:
            raise DataError(
                f"a continuation of {len(continuation)} tokens; allowed: 1 to {self.max_length}, which "
                f"{self.loaded.name} reads"
            )
        return Sequence(ids, start, truncated=len(context) + len(continuation) - len(ids))

    def loglikelihood_rolling(self, requests: Instances, disable_tqdm: bool = False) -> list[float]:
        """Log-likelihood of whole texts, in disjoint windows of which the last has all the context it can."""
        windows: list[tuple[None, list[int], list[int]]] = []
        counts = []
        for request in requests:
            cut = get_rolling_token_windows(
                token_list=self.tok_encode(request.args[0]),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            )
            parts = [(None, *make_disjoint_window(window)) for window in cut]
            windows += parts
            counts.append(len(parts))
        answers = iter(self._loglikelihood_tokens(windows, disable_tqdm=disable_tqdm))
        totals = [sum(next(answers)[0] for _ in range(count)) for count in counts]
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def generate_until(self, requests: Instances, disable_tqdm: bool = False) -> list[str]:
        """Continuations, up to the stop strings and limits that the tasks state."""
        prompts = [
            self._prompt(request.args[0], request.args[1], number) for number, request in enumerate(requests)
        ]
        batches = generate_texts(
            self.loaded, prompts, batch_tokens=self.batch_tokens, progress=not disable_tqdm
        )
        texts = [one.text for one in collect(batches, len(prompts))]
        for request, text in zip(requests, texts, strict=True):
            self.cache_hook.add_partial("generate_until", request.args, text)
        return texts

    def _prompt(self, context: str, options: dict[str, Any], number: int) -> GenerationRequest:
        found: dict[str, Any] = dict(normalize_gen_kwargs(options, self.max_gen_toks))
        unknown = set(found) - _GENERATION - _IGNORED
        if unknown:
            raise ModelError(
                f"the task asks for generation with {', '.join(sorted(unknown))}; "
                f"allowed: {', '.join(sorted(_GENERATION))}"
            )
        eos = self.tokenizer.decode(self.eot_token_id)
        sampled = bool(found.get("do_sample"))
        return GenerationRequest(
            text=context,
            stop=tuple(s for s in handle_stop_sequences(found.get("until"), eos=eos) if s),
            max_tokens=int(found["max_gen_toks"]),
            temperature=float(found.get("temperature") or 1.0) if sampled else 0.0,
            top_p=float(found.get("top_p", 1.0)),
            number=number if sampled else 0,
        )


def _device(name: str | None) -> str:
    """lm-eval asks for ``cuda:0`` unless told otherwise, also where there is none; its own model then takes the CPU."""
    unavailable = name is not None and name.startswith("cuda") and not torch.cuda.is_available()
    return "auto" if name is None or unavailable else name
