# %%
from typing import Generic, TypeVar, Protocol, runtime_checkable, Optional, TypedDict, Literal
T = TypeVar("T")
class Stack(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []
    def push(self, x: T) -> "Stack[T]":
        self.items.append(x)
        return self
    def pop(self) -> T:
        return self.items.pop()
@runtime_checkable
class Sized2(Protocol):
    def size(self) -> int: ...
class Movie(TypedDict, total=False):
    name: str
    year: int
s = Stack[int]().push(1).push(2)
s.items
# %%
s.push(3).pop(), s.items
# %%
class Bag:
    def size(self): return 3
isinstance(Bag(), Sized2), isinstance(3, Sized2)
# %%
m: Movie = {"name": "x"}
Mode = Literal["r", "w"]
def f(a: int, b: Optional[str] = None, *, mode: Mode = "r") -> Movie:
    return {"name": f"{a}{b}{mode}"}
f(1, mode="w"), m
# %%
isinstance(Bag(), Sized2), f.__annotations__["a"] is int, f(2), type(s).__name__
