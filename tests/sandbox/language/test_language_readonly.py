"""Arrays that compiled code trusts stay as they are, in every way to write to an array; each way writes to a copy of them."""

from __future__ import annotations

import io
import warnings

import pytest

from byref_sandbox.language.policy import Language

WAYS = """
np.clip(src, 0, 99, out=k)
np.cumsum(src, out=k)
np.take(src, [0, 1], out=k)
np.take(src, [0, 1], out=k, mode="clip")
np.choose([0, 0], [src, src], out=k)
np.compress([1, 1], src, out=k)
np.concatenate([src[:1], src[1:]], out=k)
np.einsum("i->i", src, out=k)
np.dot(np.eye(2, dtype="i1"), src, out=k)
np.round(src, out=k)
np.stack([src], axis=0, out=k.reshape(1, 2))
np.copyto(k, src)
np.put(k, [0], 99)
np.place(k, [True, True], [99])
np.putmask(k, [True, True], [99])
np.put_along_axis(k, np.array([0]), 99, 0)
k.fill(99)
k.put([0], [99])
np.fill_diagonal(k.reshape(1,2), 99)
np.matmul(np.eye(2, dtype="i1"), src, out=k)
np.minimum.reduce([src], out=k)
np.add.accumulate(src, out=k)
np.add.reduceat(src, [0, 1], out=k)
np.logical_not(src, out=k)
np.bitwise_or(src, 0, k)
np.max(src.reshape(1, 2), axis=0, out=k)
np.nanmax(src.reshape(1, 2), axis=0, out=k)
np.median(src.reshape(1,2), axis=0, out=k)
k.flat.__setitem__(0, 99)
operator.setitem(k.flat, 0, 99)
k.T.fill(3)
k.real.fill(3)
np.lib.stride_tricks.sliding_window_view(k, 1, writeable=True).fill(9)
np.broadcast_arrays(k, k)[0].fill(9)
np.atleast_2d(k).fill(9)
np.asarray(k).fill(9)
np.asanyarray(k).view(np.matrix).fill(9)
np.ma.asarray(k).fill(9)
np.squeeze(k).fill(9)
np.ravel(k).fill(9)
np.moveaxis(k.reshape(1,2),0,1).fill(9)
np.frombuffer(k, "i1").fill(9)
np.array(k, copy=None).fill(9)
np.ascontiguousarray(k).fill(9)
pd.array(k, copy=False).to_numpy().fill(9)
pd.arrays.NumpyExtensionArray(k).to_numpy().fill(9)
pd.arrays.NumpyExtensionArray(k).__setitem__(0, 99)
operator.setitem(pd.arrays.NumpyExtensionArray(k), 0, 99)
pd.Series(k, copy=False).iloc.__setitem__(0, 99)
operator.setitem(pd.Series(k, copy=False), 0, 99)
pd.Series(k, copy=False).mask([True, True], 99, inplace=True)
pd.Series(k, copy=False).update(pd.Series(src))
pd.Series(k, copy=False).replace(0, 99, inplace=True)
pd.arrays.IntegerArray(k, np.array([False, False])).__setitem__(0, 9)
operator.setitem(pd.arrays.IntegerArray(k, np.array([False, False])), 0, 9)
setattr(k, 'real', 99)
setattr(k, 'flat', 99)
k.flags.__setitem__('W', True) or k.fill(9)
operator.setitem(k.flags, 'WRITEABLE', True) or k.fill(9)
setattr(k.flags, 'writeable', True) or k.fill(9)
k.setflags(write=True) or k.fill(9)
np.add.at(k, [0], 9)
np.random.default_rng().permuted(src, out=k)
np.ma.array(k, copy=False).put([0], [99])
operator.setitem(np.ma.array(k, copy=False), 0, 99)
operator.iadd(k, 9)
operator.iadd(np.ma.array(k, copy=False), 9)
operator.setitem(k.view('u1'), 0, 99)
operator.setitem(k.view(np.recarray), 0, 99)
operator.setitem(k, slice(None), 99)
operator.setitem(k, [True, True], 99)
operator.setitem(k[:], 0, 99)
operator.setitem(k.reshape(2, 1), (0, 0), 99)
operator.setitem(k.data, 0, 99)
operator.setitem(np.asarray(k.data), 0, 99)
operator.setitem(np.frombuffer(k.data, 'i1'), 0, 99)
k.sort()
k.partition(1)
"""


def _after(language: Language, way: str, array: str) -> object:
    code = f"""
src = np.array([99, 98], "i1")
k = pd.Categorical(["b", "a"]).codes{array}
try: {way}
except Exception: pass
k.tolist()
"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return language.run(language.compile(code), {}, io.StringIO()).value


@pytest.mark.parametrize("way", WAYS.strip().splitlines())
def test_codes_are_not_written_to(language: Language, way: str) -> None:
    assert _after(language, way, "") == [1, 0]


@pytest.mark.parametrize("way", WAYS.strip().splitlines())
def test_a_copy_of_them_is(language: Language, way: str) -> None:
    assert _after(language, way, ".copy()") != [1, 0]
