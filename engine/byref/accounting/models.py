"""Context windows and prices of models, from the host's overrides and from genai-prices.

Nothing here uses the network. Importing genai-prices takes 0.2 s or more, so it is imported at the first lookup that the
overrides do not answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from byref.errors import ConfigurationError

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo as KnownModel
    from genai_prices.types import Provider, TieredPrices

__all__ = ["ModelInfo", "Models", "Price", "context_window", "cost", "input_cost", "price"]

_MILLION = Decimal(1_000_000)
_MAX_NAME = 256
_MAX_PREFIXES = 8
_REGION_OR_VENDOR = re.compile("[a-z][a-z-]*[.]")
"""Of Bedrock's names: us.anthropic.claude-…, amazon.nova-…"""
_RELEASE = re.compile(r"(?:[-@]20\d\d-?[01]\d-?[0-3]\d(?:-v\d+(?::\d+)?)?|-v\d+:\d+)\Z")
"""-2024-08-06, -20250929, @20250929, -20250929-v1:0, -v1:0"""


@dataclass(frozen=True)
class ModelInfo:
    """A host's own data of a model; None leaves a field as genai-prices has it. Prices are US dollars per million tokens.

    Raises:
        ConfigurationError: the window is not a positive integer, or a price is negative.
    """

    context_window: int | None = None
    input_price: Decimal | float | str | None = None
    output_price: Decimal | float | str | None = None
    cache_read_price: Decimal | float | str | None = None
    cache_write_price: Decimal | float | str | None = None

    def __post_init__(self) -> None:
        if self.context_window is not None and (type(self.context_window) is not int or self.context_window < 1):
            raise ConfigurationError(f"context_window={self.context_window!r}: expected a positive integer of tokens")
        for name in ("input_price", "output_price", "cache_read_price", "cache_write_price"):
            _dollars(name, getattr(self, name))

    @property
    def price(self) -> Price:
        """The prices alone, as exact decimals."""
        return Price(
            _dollars("input_price", self.input_price),
            _dollars("output_price", self.output_price),
            _dollars("cache_read_price", self.cache_read_price),
            _dollars("cache_write_price", self.cache_write_price),
        )


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens; the lowest tier of a tiered price. None: unknown, or charged as input."""

    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None


class Models:
    """Windows and prices by model name, `overrides` first.

    A name may carry prefixes and suffixes of a gateway: `anthropic/claude-sonnet-5`, `openai:gpt-4o`, a Bedrock ARN or
    inference profile, a date. Names are compared without regard to case. An unknown value is None, never a guess.
    """

    def __init__(self, overrides: Mapping[str, ModelInfo] | None = None) -> None:
        """`overrides` maps names, with or without prefix and date, to the host's own data. One without a date holds for all dates that
        have none of their own. Raises ConfigurationError for anything else.
        """
        if overrides is not None and not (
            isinstance(overrides, Mapping)
            and all(type(name) is str and isinstance(info, ModelInfo) for name, info in overrides.items())
        ):
            raise ConfigurationError(f"models={overrides!r:.200}: expected names of models with a byref.ModelInfo each")
        self._overrides = {name.strip().lower(): info for name, info in (overrides or {}).items()}

    def context_window(self, model: str) -> int | None:
        """Return the number of tokens that fit into the context of `model`, or None."""
        override = self._override(model)
        if override is not None and override.context_window is not None:
            return override.context_window
        return _known(model).context_window

    def price(self, model: str) -> Price | None:
        """Return the current price of `model`, or None."""
        known, override = _known(model), self._override(model)
        if override is None:
            return known.price
        own, base = override.price, known.price or Price()
        merged = Price(
            _first(own.input, base.input),
            _first(own.output, base.output),
            _first(own.cache_read, base.cache_read),
            _first(own.cache_write, base.cache_write),
        )
        return None if merged == Price() else merged

    def provider(self, model: str) -> str | None:
        """Return the model's provider by its id in genai-prices; None for an unknown model."""
        known = _known(model) if _is_name(model) else None
        return None if known is None or known.provider is None else known.provider.id

    def cost(
        self,
        model: str,
        *,
        input_tokens: int | None,
        output_tokens: int | None = 0,
        cache_read_tokens: int | None = 0,
        cache_write_tokens: int | None = 0,
        cache_write_1h_tokens: int | None = 0,
        input_audio_tokens: int | None = 0,
        cache_read_audio_tokens: int | None = 0,
    ) -> Decimal | None:
        """Return the cost of one request in US dollars, or None if a price or number that it needs is unknown.

        `input_tokens` includes cached tokens and audio, `cache_write_tokens` those cached for an hour. An unknown number of
        cached tokens or of audio counts as 0; an unknown output as 0 only if the model has no price for output (embeddings). The
        tier is that of the request's size; an override has neither tiers nor a price for an hour or for audio.

        Raises:
            ValueError: a number of tokens is negative.
        """
        given = (
            *(input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens),
            *(input_audio_tokens, cache_read_audio_tokens),
        )
        counts = _Counts(*(number or 0 for number in given))
        if min(counts) < 0:
            raise ValueError(f"token counts {given!r}: expected no negative number")
        price = self.price(model)
        if price is None or input_tokens is None or (output_tokens is None and price.output is not None):
            return None
        if (input_tokens and price.input is None) or (output_tokens and price.output is None):
            return None
        override = self._override(model)
        if override is None or override.price == Price():
            return _known_cost(_known(model), counts)
        base = price.input or Decimal(0)
        total = (
            max(0, counts.input - counts.cache_read - counts.cache_write) * base
            + counts.cache_read * (base if price.cache_read is None else price.cache_read)
            + counts.cache_write * (base if price.cache_write is None else price.cache_write)
            + counts.output * (price.output or Decimal(0))
        )
        return total / _MILLION

    def input_cost(self, model: str, tokens: int) -> Decimal | None:
        """Return the cost in US dollars of reading `tokens` once, uncached, or None if the price is unknown.

        Of a tiered price the lowest is used, because tokens summed over many requests belong to no tier of one request.

        Raises:
            ValueError: the number of tokens is negative.
        """
        if tokens < 0:
            raise ValueError(f"tokens={tokens!r}: expected no negative number")
        price = self.price(model)
        return None if price is None or price.input is None else tokens * price.input / _MILLION

    def _override(self, model: str) -> ModelInfo | None:
        if not self._overrides or not _is_name(model):
            return None
        return next((self._overrides[name] for name in _own_names(model) if name in self._overrides), None)


_DEFAULT = Models()
context_window = _DEFAULT.context_window
price = _DEFAULT.price
cost = _DEFAULT.cost
input_cost = _DEFAULT.input_cost


def _dollars(name: str, value: Decimal | float | str | None) -> Decimal | None:
    if value is None:
        return None
    try:
        dollars = Decimal(str(value))
    except ArithmeticError:
        dollars = Decimal("NaN")
    if isinstance(value, bool) or not dollars.is_finite() or dollars < 0:
        raise ConfigurationError(f"{name}={value!r}: expected US dollars per million tokens, 0 or more")
    return dollars


def _first(own: Decimal | None, base: Decimal | None) -> Decimal | None:
    return base if own is None else own


def _is_name(model: object) -> bool:
    return isinstance(model, str) and 0 < len(model) <= _MAX_NAME and model.isprintable()


def _spellings(model: str) -> Iterator[tuple[str | None, str]]:
    """Yield (provider, name) pairs by which to look `model` up, the most literal first; provider None means any."""
    name = model.strip().lower()
    yield None, name
    if name.startswith("ft:"):  # OpenAI's fine-tunes: ft:base:organisation::id
        yield "openai", name
        yield None, name.split(":")[1]
        return
    if name.startswith("arn:"):
        yield "aws", name.rpartition("/")[2]
        return
    for _ in range(_MAX_PREFIXES):
        yield "aws", name  # us.anthropic.claude-…, amazon.nova-…
        cut = re.search("[/:]", name)
        if cut is None:
            return
        prefix, name = name[: cut.start()], name[cut.end() :]
        yield prefix, name
        if cut.group() == "/":  # not after a colon, which may precede a size or a variant: llama3:8b
            yield None, name


def _own_names(model: str) -> Iterator[str]:
    """Yield the names under which a host may have data of its own for `model`: as it is, without prefix, without date."""
    names = [name for _, name in _spellings(model)]
    for name in tuple(names):
        rest = name
        while prefix := _REGION_OR_VENDOR.match(rest):
            rest = rest[prefix.end() :]
            names.append(rest)
    yield from names
    if not names[0].startswith("ft:"):  # a fine-tune's price is not its base's
        yield from (_RELEASE.sub("", name) for name in names)


class _Known(NamedTuple):
    context_window: int | None = None
    price: Price | None = None
    model: KnownModel | None = None
    provider: Provider | None = None


_UNKNOWN = _Known()


def _known(model: str) -> _Known:
    return _look_up(model) if _is_name(model) else _UNKNOWN


@lru_cache(maxsize=1024)
def _look_up(model: str) -> _Known:
    matches = [match for spelling in _spellings(model) if (match := _match(*spelling))]
    if not matches:
        matches = [match for _, name in _spellings(model) if (match := _listed(name))]
    if not matches:
        return _UNKNOWN
    provider, info = matches[0]
    # genai-prices lacks some windows that it has for the same model under OpenRouter's name.
    if info.context_window is None and (listed := _match("openrouter", f"{provider.id}/{info.id}")):
        matches.insert(1, listed)
    window = next((info.context_window for _, info in matches if info.context_window), None)
    return _Known(window, _current_price(info), info, provider)


def _match(provider_id: str | None, name: str) -> tuple[Provider, KnownModel] | None:
    # Not DataSnapshot.find_provider_model, which does the same but remembers every name that it was ever asked for.
    from genai_prices.data_snapshot import find_provider_by_id, get_snapshot

    providers = get_snapshot().providers
    if provider_id is not None:
        provider = find_provider_by_id(providers, provider_id)
    else:
        provider = next((p for p in providers if p.model_match is not None and p.model_match.is_match(name)), None)
    info = provider.find_model(name, all_providers=providers) if provider is not None else None
    return (provider, info) if provider is not None and info is not None else None


def _listed(name: str) -> tuple[Provider, KnownModel] | None:
    """Return a model that some provider lists under exactly this name; OpenRouter is preferred to smaller hosts."""
    from genai_prices.data_snapshot import get_snapshot

    providers = sorted(get_snapshot().providers, key=lambda provider: provider.id != "openrouter")
    return next(((provider, info) for provider in providers for info in provider.models if info.id == name), None)


def _current_price(info: KnownModel) -> Price | None:
    if not info.prices:
        return None
    prices = info.get_prices(datetime.now(UTC))
    price = Price(
        _lowest(prices.input_mtok),
        _lowest(prices.output_mtok),
        _lowest(prices.cache_read_mtok),
        _lowest(prices.cache_write_mtok),
    )
    return None if price == Price() else price


def _lowest(price: Decimal | TieredPrices | None) -> Decimal | None:
    return price if price is None or isinstance(price, Decimal) else price.base


class _Counts(NamedTuple):
    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    audio: int
    cache_read_audio: int


def _known_cost(known: _Known, counts: _Counts) -> Decimal | None:
    if known.model is None or known.provider is None:
        return None
    from genai_prices import Usage

    whole = max(counts.input, counts.cache_read + counts.cache_write)
    audio: dict[str, int] = {}
    if counts.audio:
        # What is audio, what is cached, and what is both have to fit into each other, or genai-prices refuses all of it.
        heard = min(counts.audio, whole - counts.cache_write)
        least, most = max(0, heard + counts.cache_read + counts.cache_write - whole), min(heard, counts.cache_read)
        cached = min(max(counts.cache_read_audio, least), most)
        audio = {"input_audio_tokens": heard, "cache_audio_read_tokens": cached, "cache_audio_write_tokens": 0}
    usage = Usage(
        **audio,
        input_tokens=whole,
        output_tokens=counts.output,
        cache_read_tokens=counts.cache_read,
        cache_write_tokens=counts.cache_write,
        cache_write_1h_tokens=min(counts.cache_write_1h, counts.cache_write),
    )
    return known.model.calc_price(usage, known.provider).total_price
