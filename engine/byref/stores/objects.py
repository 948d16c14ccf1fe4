"""Objects in S3, Google Cloud Storage or Azure, through obstore (extra `s3`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from byref.errors import ArtifactMissing, ConfigurationError, StorageFailure, one_line
from byref.stores.forks import here
from byref.stores.keys import check_key, check_range, is_key
from byref.stores.protocol import check_model_readable

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

UPLOAD_BYTES = 8 << 20
"""An object up to this size is put in one request, a bigger one in parts of it: S3 takes 10,000, so 80 GB."""
UPLOADS = 2
"""Parts on their way at once: with the one being filled, a write holds three in memory."""
LISTED = 1000
"""Objects of one listing request, S3's own limit."""
CLIENT_OPTIONS: Mapping[str, Any] = {"connect_timeout": "5s", "timeout": "60s"}
"""Time for a connection, and for one request with its body of at most 8 MiB."""
RETRY_CONFIG: Mapping[str, Any] = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
"""How often obstore asks again after a 5xx, a cut connection or a time-out, and for how long."""

_NAMES = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az"}
_PREFIX = re.compile(r"(?:(?!\.{1,2}(?:/|$))[\w.=@+-]+(?:/|$))*", re.ASCII)
_EXPECTED = (
    "expected s3://bucket, gs://bucket, az://container, or obstore's S3Store, GCSStore or AzureStore; "
    "for files there is FileStore"
)
_NO_BUCKET = "NoSuchBucket"
_CODE = re.compile(r"<Code>(\w{1,60})</Code>", re.ASCII)
"""S3's name of an error."""
_SECRET = re.compile(r"(?<=://)\S*@|\?\S*")
"""What of a URL, within other words, may be a password or a signature."""
_PLACE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,20}://[\w./=+-]*)(?:[?#].*)?", re.DOTALL)
_CONTENT_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(?: ?; ?[\w-]{1,50}=[\w.+-]{1,100}){0,4}", re.ASCII)


def shown_place(place: str) -> str:
    """Return a place of objects as it may be printed: of a URL what has no key in it, a path as it is."""
    if "://" not in place:
        return "***" if re.search(":.*@", place, re.DOTALL) else place
    sound = None if "@" in place else _PLACE.fullmatch(place.strip())
    return sound[1] if sound else "***"


class ObjectStore:
    """Keeps objects in a bucket, under a prefix, with their content type; they are whatever the bucket's rules let read.

    `place` is a URL (`s3://bucket/prefix`, `gs://…`, `az://…`), for which obstore's settings, `client_options` and
    `retry_config` may follow by name and credentials are found where the cloud's own tools find them, or an obstore store
    with all of its settings. `compresses=True` keeps compressed frames: cheaper, but other programs cannot read them.
    `model_readable` says that the model reads at the objects' URLs with tools of the host's, as FileStore's does.
    An upload that a crash cut off keeps its parts out of sight in S3: have the bucket's life cycle abort such.
    """

    def __init__(
        self,
        place: str | S3Store | GCSStore | AzureStore,
        *,
        prefix: str = "",
        compresses: bool = False,
        model_readable: bool = False,
        **settings: Any,
    ) -> None:
        try:
            import obstore  # noqa: F401 (an extra)
        except ImportError:
            raise ConfigurationError("ObjectStore needs obstore: pip install 'byref[s3]'") from None
        if isinstance(place, str):
            place = _from_url(place, settings)
        elif settings:
            raise ConfigurationError(
                f"{', '.join(settings)}: an obstore store has its settings already; give them to that"
            )
        if type(place).__name__ not in _NAMES or not type(place).__module__.startswith("obstore"):
            raise ConfigurationError(f"ObjectStore({type(place).__name__}): {_EXPECTED}")
        if not isinstance(prefix, str) or len(prefix) > 500 or not _PREFIX.fullmatch(prefix.strip("/")):
            raise ConfigurationError(
                f"prefix={prefix!r}: expected names of letters, digits and _.=@+- with / between them"
            )
        self.name = _NAMES[type(place).__name__]
        self.compresses = compresses
        self._prefix = f"{prefix.strip('/')}/".lstrip("/")
        self._base = _base_uri(place, self.name)
        self._store = place
        self._client: tuple[int, Any, Any] | None = None
        self.model_readable = model_readable
        check_model_readable(self)

    def write(self, key: str, parts: Iterable[bytes], *, content_type: str) -> None:
        """Keep an object in place of any of that key: seen whole or not at all."""
        path = self._path(key)
        if not _CONTENT_TYPE.fullmatch(content_type):
            content_type = "application/octet-stream"  # what no header may carry
        obstore, store = self._here()
        writer = obstore.open_writer(
            store, path, attributes={"Content-Type": content_type}, buffer_size=UPLOAD_BYTES, max_concurrency=UPLOADS
        )
        try:
            for part in parts:
                with self._failures():
                    writer.write(part)
            with self._failures():
                writer.close()
        except BaseException as error:
            with suppress(Exception):  # what cannot be aborted now is for the bucket's life cycle
                writer.__exit__(type(error), error, error.__traceback__)
            raise

    def read(self, key: str, offset: int, size: int) -> bytes:
        """Return exactly these bytes of an object; `ArtifactMissing` if there is none or it ends before."""
        check_range(offset, size)
        path = self._path(key)
        obstore, store = self._here()
        with self._failures(key):
            if size:
                data = bytes(obstore.get_range(store, path, start=offset, length=size))
                end = offset + len(data)
            else:  # a range of no bytes cannot be asked for
                data, end = b"", obstore.head(store, path)["size"]
        if end < offset + size:
            raise ArtifactMissing(f"in the store {self.name!r} {key!r} ends at byte {end}, before {offset + size}")
        return data

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""
        paths = [self._path(key) for key in keys]
        if not paths:
            return
        obstore, store = self._here()
        with self._failures():
            try:
                obstore.delete(store, paths)
            except FileNotFoundError as error:
                if _NO_BUCKET in str(error):
                    raise
                for path in paths:  # Google's and Azure's deletion stops at the first that is missing
                    with suppress(FileNotFoundError):
                        obstore.delete(store, path)

    def keys(self, *, older_than: datetime) -> Iterator[str]:
        """Yield the key of every object last written before a time, page by page."""
        obstore, store = self._here()
        with self._failures():
            pages = iter(obstore.list(store, self._prefix or None, chunk_size=LISTED))
        while True:
            with self._failures():
                page = next(pages, ())
            if not page:
                return
            for found in page:
                key = found["path"].removeprefix(self._prefix)
                if is_key(key) and found["last_modified"] < older_than:
                    yield key

    def uri(self, key: str) -> str | None:
        """Return an object's URL: `s3://bucket/…` or `gs://…`, on Azure that of the container's own address."""
        path = self._path(key)
        return None if self._base is None else f"{self._base}/{path}"

    def _path(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _here(self) -> tuple[Any, Any]:
        """Return obstore's library and the store, both for use in this process."""
        if self._client is None or self._client[0] != os.getpid():
            self._client = (os.getpid(), *here(self._store))
        return self._client[1:]

    @contextmanager
    def _failures(self, key: str | None = None) -> Iterator[None]:
        """Raise what obstore raises as ours, without the request: that may be signed. `key`: it may be missing."""
        try:
            yield
        except (OSError, self._here()[0].exceptions.BaseError) as error:
            text = str(error)
            if key and _missing(error, text):
                raise ArtifactMissing(f"the store {self.name!r} has no object {key!r} of that length") from None
            code = _CODE.search(text)
            words = one_line(_SECRET.sub("", text.partition("\n")[0].partition(": <")[0]), 400)
            place = self._base or self.name
            raise StorageFailure(f"the store {place!r}: {words}{f' ({code[1]})' if code else ''}") from None


def _missing(error: Exception, text: str) -> bool:
    if isinstance(error, FileNotFoundError):
        return _NO_BUCKET not in text
    return "status code: 416" in text


def _from_url(url: str, settings: dict[str, Any]) -> Any:
    import obstore.exceptions
    from obstore.store import from_url

    given = {**settings}
    given["client_options"] = {**CLIENT_OPTIONS, **(settings.get("client_options") or {})}
    given["retry_config"] = {**RETRY_CONFIG, **(settings.get("retry_config") or {})}
    shown = shown_place(url)[:200]
    if not url.startswith(("s3://", "gs://", "az://")):
        raise ConfigurationError(f"ObjectStore({shown!r}): {_EXPECTED}")
    try:
        return from_url(url, **given)
    except (obstore.exceptions.BaseError, ValueError, TypeError) as error:
        words = _SECRET.sub("", str(error).replace(url, shown).partition("\n")[0])
        raise ConfigurationError(f"ObjectStore({shown!r}): {one_line(words)}") from None


def _base_uri(store: Any, name: str) -> str | None:
    """Return the URL below which a store's objects are, as the cloud's own tools read it."""
    config = store.config
    if name == "az":
        account, container = config.get("account_name"), config.get("container_name")
        base = f"https://{account}.blob.core.windows.net/{container}" if account and container else None
    else:
        base = f"{name}://{config['bucket']}" if config.get("bucket") else None
    return base and "/".join([base, *(part for part in str(store.prefix or "").split("/") if part)])
