"""Blob stores: where the bytes of artifacts live when they are not in SQL."""

from byref.stores.files import FileStore
from byref.stores.keys import check_key, extension, object_key
from byref.stores.memory import MemoryStore
from byref.stores.objects import ObjectStore
from byref.stores.protocol import BlobStore

__all__ = ["BlobStore", "FileStore", "MemoryStore", "ObjectStore", "check_key", "extension", "object_key", "store_at"]


def store_at(place: str) -> FileStore | ObjectStore:
    """Return the store at a place as text: the URL of a bucket or container, else the path of a folder."""
    return ObjectStore(place) if "://" in place else FileStore(place)
