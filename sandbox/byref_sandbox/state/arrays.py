"""How arrays are taken apart, with whose memory they look at: a view stays a view, and what shares values goes on sharing them."""

from __future__ import annotations

import pickle
from typing import Any, Final

import numpy as np
import pandas as pd

from byref_sandbox.state.builders import BUILDERS, KINDS_OF_ARRAYS
from byref_sandbox.state.codes import Unkept

_MAX_ROOT_TIMES: Final = 8
_SMALL_ROOT_BYTES: Final = 1 << 20
"""An array that is a view of a part of a larger one is written with the larger one, unless that is larger than this and so many
times its size."""

_strided: Any = np.lib.stride_tricks.as_strided(np.zeros(1))
_STRIDED: Final = type(_strided.base)
_ARRAYS: Final = (np.ndarray, *KINDS_OF_ARRAYS, np.ma.MaskedArray)


class Arrays:
    """Takes the arrays of one writer apart, which go into the same stream."""

    def __init__(self) -> None:
        self._roots: set[int] = set()
        self._plain: dict[int, Any] = {}
        """Of arrays of other kinds than numpy's plain one whose memory others look at: a plain array of it."""
        self._alive: list[object] = []

    def taken_apart(self, array: Any) -> Any:
        """Reduce a plain array: to its memory, or to a place in that of another one, which is then written whole."""
        root = self._root_of(array)
        if array.dtype.kind == "T":  # numpy's StringDType
            raise Unkept("an array of numpy's StringDType: array.astype(object) is kept")
        if array.dtype.hasobject and array.dtype.kind != "O":
            raise Unkept("an array of records that hold objects")
        if root is not array and self._goes_along(root, array):
            offset = _address(array) - _address(root)
            return BUILDERS["view"], (root, array.shape, _dtype(array), offset, array.strides, array.flags.writeable)
        self._roots.add(id(array))
        self._alive.append(array)  # an id belongs to one object only as long as that lives
        if array.dtype.hasobject:
            # numpy's own function would accept any list as the objects, whatever its length.
            order = "F" if array.flags.fnc else "C"
            members = array.ravel(order).tolist()
            return (
                BUILDERS["objects"],
                (array.shape, order),
                (members, array.flags.writeable),
                None,
                None,
                BUILDERS["fill_objects"],
            )
        order = "F" if array.flags.fnc else "C"
        flat = (array.T if order == "F" else array).ravel()  # a copy if the array is not contiguous
        if not array.flags.writeable:
            flat.flags.writeable = False
        raw = pickle.PickleBuffer(flat.view(np.uint8) if flat.dtype.itemsize and flat.size else flat[:0].tobytes())
        return BUILDERS["array"], (raw, array.shape, _dtype(array), order, array.flags.writeable)

    def _root_of(self, array: Any) -> Any:
        """Return the array of whose memory it is a view, or itself."""
        root = array
        while (base := _base_of(root)) is not None:
            root = base
        if type(root) is np.ndarray:
            return root
        if id(root) not in self._plain:
            self._plain[id(root)] = np.ndarray.view(root, np.ndarray)
            self._alive.append(root)
        return self._plain[id(root)]

    def of_kind(self, array: Any) -> Any:
        """A matrix, or an array of records: an array by another name, which may look at another one's memory."""
        if array.dtype.hasobject:
            return NotImplemented
        root = self._root_of(array)
        is_root = _base_of(array) is None
        return BUILDERS["of_kind"], (root if is_root else np.ndarray.view(array, np.ndarray), type(array))

    def element(self, record: Any) -> Any:
        """A record of an array, whose fields are those in the array."""
        base = record.base
        if type(base) not in _ARRAYS or record.dtype.hasobject or record.dtype.names is None:
            return NotImplemented
        root = self._root_of(base)
        offset = _address(record) - _address(root)
        is_inside = root.flags.forc and 0 <= offset <= root.nbytes - record.dtype.itemsize
        is_kept = is_inside and self._goes_along(root, record)
        return (BUILDERS["element"], (root, record.dtype, offset)) if is_kept else NotImplemented

    def masked(self, array: Any) -> Any:
        """Reduce an array with a mask."""
        if array.dtype.hasobject or array._baseclass is not np.ndarray or array._optinfo:
            return NotImplemented
        mask = array._mask
        fill = None if array._fill_value is None else array._fill_value[()]
        how = fill, bool(array._hardmask), bool(array._sharedmask)
        return BUILDERS["masked"], (np.ndarray.view(array, np.ndarray), None if mask is np.ma.nomask else mask, *how)

    def _goes_along(self, root: Any, array: Any) -> bool:
        if root.dtype.hasobject != array.dtype.hasobject or not root.flags.forc:
            return False
        return id(root) in self._roots or root.nbytes <= max(_SMALL_ROOT_BYTES, _MAX_ROOT_TIMES * array.nbytes)

    def table(self, owner: Any) -> Any:
        """Take a table, column or index apart, with the attributes that code has set on it: pandas forgets those of an index."""
        own = attributes_of(owner)
        if issubclass(type(owner), pd.Index) and type(owner) is not pd.RangeIndex:
            return self.sharing(owner, own)
        if not own:
            return NotImplemented
        make, arguments, *state = owner.__reduce_ex__(5)
        return make, arguments, {**(state[0] or {}), **own}

    def sharing(self, owner: Any, own: dict[str, Any] | None = None) -> Any:
        """Take a table's blocks or an index apart, with who shares their values until one of them is changed."""
        held = [owner._references] if issubclass(type(owner), pd.Index) else [block.refs for block in owner.blocks]
        shared = [each if each is not None and each.has_reference() else None for each in held]
        if not any(shared) and not own:
            return NotImplemented
        make, arguments, *state = owner.__reduce_ex__(5)
        return make, arguments, (shared, own or (state[0] if state else None)), None, None, BUILDERS["fill_sharing"]


def attributes_of(table: Any) -> dict[str, Any]:
    """Return the attributes that code has set on a table, column or index, beside those that pandas gives it."""
    kind = type(table)
    also = "sortorder" if kind is pd.MultiIndex else ""
    held = vars(table).items()
    return {name: value for name, value in held if name[:1] != "_" and name != also and not hasattr(kind, name)}


def _base_of(array: Any) -> Any:
    """Return the array of whose memory another array is a view, if there is one."""
    base = array.base.base if type(array.base) is _STRIDED else array.base
    return base if type(base) in _ARRAYS else None


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _dtype(array: Any) -> Any:
    """Return a dtype as text if the text says all of it."""
    dtype = array.dtype
    return dtype.str if dtype.metadata is None and dtype.names is None and dtype.subdtype is None else dtype
