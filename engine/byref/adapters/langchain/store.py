"""LangChain's key-value store in byref's database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from byref.adapters.common.extras import check_engine, missing
from byref.adapters.common.places import Place, unbounded
from byref.engine import Engine
from byref.errors import ConfigurationError
from byref.policy import Policy
from byref.tools.storage import MAX_NAME_CHARS

try:
    from langchain_core.stores import BaseStore, InvalidKeyException
except ImportError as error:
    raise missing("byref.adapters.langchain", "langchain", "langchain") from error


class ByrefStore(BaseStore[str, bytes]):
    """LangChain's `BaseStore` of bytes (a `ByteStore`): values under keys, in one byref conversation of the tenant.

    For `CacheBackedEmbeddings`, `create_kv_docstore` and other users of a store. The values are artifacts that no model sees,
    unless `session` is the id of a real conversation. A value stays until it is overwritten or deleted, or its session or tenant is
    deleted: whatever the policy says, it has no TTL and no `max_session_bytes`. Keys are texts of 1 to 256 characters. Each `mset`
    and `mdelete` is one transaction; of concurrent ones, the last to commit wins.

    Raises:
        ConfigurationError: `engine` is not a `byref.Engine`; in `mset`, a value is not bytes.
        InvalidKeyException: in `mset`, a key is invalid.
        QuotaExceeded: in `mset`, a value is larger than `max_artifact_bytes`, or the tenant's quota is used up.
        StorageFailure: the database failed.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        tenant: str = "default",
        session: str = "langchain-store",
        policy: Policy | None = None,
    ) -> None:
        self._place = Place(check_engine(engine), tenant, session, unbounded(policy or engine.policy))

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the values of the keys in their order; None for a key without a value."""
        if not keys:
            return []
        found = self._place.read([key for key in keys if _is_key(key)])
        return [found.get(key) for key in keys]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Set values, replacing old ones; for a key given twice, the last value is used."""
        values: dict[str, bytes] = {}
        for key, value in key_value_pairs:
            if not _is_key(key):
                raise InvalidKeyException(f"{str(key)[:100]!r}: a key is a text of 1 to {MAX_NAME_CHARS} characters")
            if not isinstance(value, bytes | bytearray | memoryview):
                kind = type(value).__name__
                raise ConfigurationError(
                    f"the value of {key[:100]!r} is {kind}: ByrefStore keeps bytes; EncoderBackedStore writes other values"
                )
            values[key] = bytes(value)
        if values:
            self._place.write(values)

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete the values of the keys, if there are any."""
        names = [key for key in dict.fromkeys(keys) if _is_key(key)]
        if names:
            self._place.remove(names)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with a prefix, sorted."""
        yield from sorted(self._place.names(prefix or ""))


def _is_key(key: object) -> bool:
    return isinstance(key, str) and 0 < len(key) <= MAX_NAME_CHARS
