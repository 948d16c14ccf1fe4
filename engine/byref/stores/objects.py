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
"""An object up to this size is uploaded in one request, a bigger one in parts of this size. S3 takes at most 10,000 parts,
so 80 GB."""
UPLOADS = 2
"""Parts uploaded at the same time. With the part being filled, a write holds three of them in memory."""
LISTED = 1000
"""Objects per listing request; S3 allows no more."""
CLIENT_OPTIONS: Mapping[str, Any] = {"connect_timeout": "5s", "timeout": "60s"}
"""Time limits for connecting, and for one request with its body of at most 8 MiB."""
RETRY_CONFIG: Mapping[str, Any] = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
"""How often and for how long obstore retries after a 5xx status, a lost connection or a time-out."""

_NAMES = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az"}
_PREFIX = re.compile(r"(?:(?!\.{1,2}(?:/|$))[\w.=@+-]+(?:/|$))*", re.ASCII)
_EXPECTED = (
    "expected s3://bucket, gs://bucket, az://container, or obstore's S3Store, GCSStore or AzureStore; "
    "for files there is FileStore"
)
_NO_BUCKET = "NoSuchBucket"
_CODE = re.compile(r"<Code>(\w{1,60})</Code>", re.ASCII)
"""The error code in S3's response."""
_SECRET = re.compile(r"(?<=://)\S*@|\?\S*")
"""The parts of a URL inside an error's text that may hold a password or a signature."""
_PLACE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,20}://[\w./=+-]*)(?:[?#].*)?", re.DOTALL)
_CONTENT_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(?: ?; ?[\w-]{1,50}=[\w.+-]{1,100}){0,4}", re.ASCII)


def shown_place(place: str) -> str:
    """Return the place of a store as it may be printed: a path as it is, a URL without credentials and query.

    Any text that might hold a password is replaced by `***`.
    """
    if "://" not in place:
        return "***" if re.search(":.*@", place, re.DOTALL) else place
    sound = None if "@" in place else _PLACE.fullmatch(place.strip())
    return sound[1] if sound else "***"


class ObjectStore:
    """Keeps objects in a bucket, under a prefix, with their content type; the bucket's rules decide who may read them.

    `place` is an obstore store with all of its settings, or a URL (`s3://bucket/prefix`, `gs://…`, `az://…`). With a URL,
    obstore's settings, `client_options` and `retry_config` may follow as keyword arguments, and credentials are found
    where the cloud's own tools find them.

    `compresses=True` stores compressed frames, which is cheaper, but other programs cannot read them. `model_readable`
    declares that the model can read the objects at their URLs with the host's own tools, as with `FileStore`.

    After a crash, S3 keeps the parts of an unfinished upload, invisibly: let a life-cycle rule of the bucket abort
    incomplete uploads.
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
        """Write an object, replacing any with the same key; readers see all of it or nothing."""
        path = self._path(key)
        if not _CONTENT_TYPE.fullmatch(content_type):
            content_type = "application/octet-stream"  # an invalid content type must not reach a header
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
            with suppress(Exception):  # if this abort fails, the bucket's life-cycle rule removes the parts
                writer.__exit__(type(error), error, error.__traceback__)
            raise

    def read(self, key: str, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes from `offset`; `ArtifactMissing` if the object does not exist or is shorter."""
        check_range(offset, size)
        path = self._path(key)
        obstore, store = self._here()
        with self._failures(key):
            if size:
                data = bytes(obstore.get_range(store, path, start=offset, length=size))
                end = offset + len(data)
            else:  # a request cannot ask for an empty range
                data, end = b"", obstore.head(store, path)["size"]
        if end < offset + size:
            raise ArtifactMissing(f"in the store {self.name!r} {key!r} ends at byte {end}, before {offset + size}")
        return data

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; missing objects are no error."""
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
                for path in paths:  # deletion in Google's and Azure's clouds stops at the first missing object
                    with suppress(FileNotFoundError):
                        obstore.delete(store, path)

    def keys(self, *, older_than: datetime) -> Iterator[str]:
        """Yield the key of every object last written before `older_than`; the listing is fetched page by page."""
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
        """Return an object's URL: `s3://bucket/…`, `gs://…` or, on Azure, `https://<account>.blob.core.windows.net/…`."""
        path = self._path(key)
        return None if self._base is None else f"{self._base}/{path}"

    def _path(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _here(self) -> tuple[Any, Any]:
        """Return the obstore module and the store for this process; a forked child gets new ones."""
        if self._client is None or self._client[0] != os.getpid():
            self._client = (os.getpid(), *here(self._store))
        return self._client[1:]

    @contextmanager
    def _failures(self, key: str | None = None) -> Iterator[None]:
        """Turn obstore's errors into byref's, without the text of the request, which may contain a signature.

        With `key`, the object may be missing, which is an `ArtifactMissing`.
        """
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
    """Return the URL of a store's root, in the form that the cloud's own tools read."""
    config = store.config
    if name == "az":
        account, container = config.get("account_name"), config.get("container_name")
        base = f"https://{account}.blob.core.windows.net/{container}" if account and container else None
    else:
        base = f"{name}://{config['bucket']}" if config.get("bucket") else None
    return base and "/".join([base, *(part for part in str(store.prefix or "").split("/") if part)])
