"""Code that a model might write, or be talked into, that eats: under the language wall, in a session with data.

Each with the kinds of errors it may end with; "" where it may also end by itself.
"""

from __future__ import annotations

TIME = ("CpuLimit", "TimeLimit")
MEMORY = ("MemoryLimit", "MemoryError")
EITHER = (*TIME, *MEMORY)
DEEP = ("RecursionError", "SyntaxError", "NotAllowed", *MEMORY)

NUMBERS = {
    "a huge power": ("10 ** 10 ** 8", EITHER),
    "a huge power by name": ("pow(3, 10 ** 9)", EITHER),
    "a tower of powers": ("x = 9\nfor _ in range(9):\n    x = x ** x", EITHER),
    "a huge product": ("x = 10 ** 10 ** 5\nwhile True:\n    x = x * x", EITHER),
    "a huge shift": ("(1 << 10 ** 10) % 7", (*EITHER, "OverflowError")),
    "a huge factorial": ("import math\nmath.factorial(10 ** 7)", EITHER),
    "a huge binomial": ("import math\nmath.comb(10 ** 8, 5 * 10 ** 7)", EITHER),
    "digits of a huge number": ("str(7 ** 10 ** 7)", (*EITHER, "ValueError")),
    "a huge number of digits": ("int('9' * 10 ** 8)", (*EITHER, "ValueError")),
    "a literal of digits": ("x = " + "9" * 10**5, ("SyntaxError", "NotAllowed")),
    "fractions that grow": ("import fractions\nsum(fractions.Fraction(1, n) for n in range(1, 10 ** 7))", EITHER),
    "decimals that grow": (
        "import decimal\nx = decimal.Decimal(3)\nwhile True:\n    x = x * x + 1",
        (*EITHER, "Overflow"),
    ),
}
LOOPS = {
    "a loop": ("while True: pass", TIME),
    "a sum in C": ("sum(range(10 ** 12))", TIME),
    "a maximum in C": ("max(range(10 ** 12))", TIME),
    "a search in C": ("import itertools\n-1 in itertools.count()", TIME),
    "a count in C": ("import itertools, collections\ncollections.deque(itertools.count(), maxlen=0)", TIME),
    "a product": ("import itertools\nfor _ in itertools.product(range(100), repeat=9): pass", TIME),
    "permutations": ("import itertools\nlist(itertools.permutations(range(12)))", EITHER),
    "an iterator without end": ("[x for x in iter(int, 1)]", EITHER),
    "a regular expression": ("import re\nre.match(r'(a+)+b', 'a' * 60)", TIME),
    "a regular expression of choices": ("import re\nre.fullmatch(r'(a|a)*b', 'a' * 60)", TIME),
    "a regular expression that substitutes": ("import re\nre.sub(r'(x+x+)+y', '', 'x' * 60)", TIME),
    "a regular expression over a column": ("df('rows')['t'].str.match(r'(a+)+b')", (*TIME, "")),
    "a text searched for itself": (
        "('a' * 10 ** 7).find('a' * (5 * 10 ** 6) + 'b') ; [0 for _ in iter(int, 1)]",
        EITHER,
    ),
    "a sort by an evil key": ("sorted(range(10), key=lambda n: sum(range(10 ** 11)))", TIME),
    "a random sample": ("import random\nrandom.sample(range(10 ** 12), 10 ** 9)", EITHER),
    "a table row by row": ("pd.DataFrame({'a': range(10 ** 6)}).apply(lambda row: row['a'] + 1, axis=1)", EITHER),
    "a matrix": (
        "m = np.ones((1500, 1500))\nwhile True:\n    m = np.linalg.inv(m @ m + np.eye(1500))",
        (*EITHER, "LinAlgError"),
    ),
    "sleep": ("import time\ntime.sleep(100)", TIME),
    "sleep again and again": (
        "import time\nwhile True:\n    try:\n        time.sleep(100)\n    except BaseException: pass",
        TIME,
    ),
}
STUBBORN = {
    "swallows everything": ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", TIME),
    "swallows with a bare except": ("while True:\n    try:\n        while True: pass\n    except: pass", TIME),
    "goes on in finally": ("try:\n    while True: pass\nfinally:\n    while True: pass", TIME),
    "calls itself in finally": ("def f():\n    try:\n        while True: pass\n    finally:\n        f()\nf()", TIME),
    "continues in finally": ("while True:\n    try:\n        while True: pass\n    finally:\n        continue", TIME),
    "swallows by a context": (
        "class C:\n    def __enter__(self): return 1\n    def __exit__(self, *_): return True\n"
        "while True:\n    with C():\n        while True: pass",
        TIME,
    ),
    "swallows in a generator": (
        "def g():\n    while True:\n        try:\n            yield 1\n        except BaseException: pass\nfor _ in g(): pass",
        TIME,
    ),
    "catches memory errors": (
        "kept = []\nwhile True:\n    try:\n        kept.append('x' * 10 ** 7)\n    except MemoryError: pass",
        EITHER,
    ),
    "catches recursion": (
        "def f():\n    try:\n        f()\n    except RecursionError:\n        f()\nf()",
        (*TIME, "RecursionError"),
    ),
    "raises in except without end": (
        "while True:\n    try:\n        raise KeyError\n    except KeyError: continue",
        TIME,
    ),
    "signals": ("import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)", ("ModuleNotFoundError",)),
    "at exit": ("import atexit\natexit.register(print)", ("ModuleNotFoundError",)),
    "a thread": ("import threading\nthreading.Thread(target=print).start()", ("ModuleNotFoundError",)),
}
_ODD = "class Odd:\n    def {}:\n        {}\n"
_LOOP = "while True: pass"
EVIL = {
    "a repr without end": (_ODD.format("__repr__(self)", _LOOP) + "Odd()", TIME),
    "a str without end": (_ODD.format("__str__(self)", _LOOP) + "print(Odd())", TIME),
    "a format without end": (_ODD.format("__format__(self, spec)", _LOOP) + "f'{Odd()}'", TIME),
    "a length without end": (_ODD.format("__len__(self)", _LOOP) + "len(Odd())", TIME),
    "a huge length": (_ODD.format("__len__(self)", "return 10 ** 18") + "len(Odd()), list(range(len(Odd())))", EITHER),
    "a truth without end": (_ODD.format("__bool__(self)", _LOOP) + "not Odd()", TIME),
    "an iteration without end": (_ODD.format("__iter__(self)", "while True: yield 1") + "list(Odd())", EITHER),
    "an equality without end": (_ODD.format("__eq__(self, other)", _LOOP) + "[Odd()].index(1)", TIME),
    "a hash without end": (_ODD.format("__hash__(self)", _LOOP) + "{Odd()}", TIME),
    "a comparison without end": (_ODD.format("__lt__(self, other)", _LOOP) + "sorted([Odd(), Odd()])", TIME),
    "a sum without end": (_ODD.format("__radd__(self, other)", _LOOP) + "sum([Odd()])", TIME),
    "a call without end": (_ODD.format("__call__(self)", _LOOP) + "Odd()()", TIME),
    "an item without end": (_ODD.format("__getitem__(self, key)", "return key") + "list(Odd())", EITHER),
    "an attribute without end": (_ODD.format("__getattr__(self, name)", _LOOP) + "Odd().a", (*TIME, "NotAllowed")),
    "a finalizer without end": (_ODD.format("__del__(self)", _LOOP) + "Odd()\nx = 1", (*TIME, "NotAllowed", "")),
    "an error without end": ("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E()", TIME),
    "an error of a huge text": ("raise ValueError('x' * 10 ** 8)", ("ValueError", *EITHER)),
    "an error of an evil text": ("class E(Exception):\n    def __str__(self): return 7\nraise E()", ("E", "TypeError")),
    "errors that chain": (
        "e = None\nfor _ in range(10 ** 5):\n    n = ValueError(1)\n    n.__cause__ = e\n    e = n\nraise e",
        ("ValueError", "NotAllowed", *TIME),
    ),
    "a repr that repeats itself": (
        _ODD.format("__repr__(self)", "return repr([self, self])") + "Odd()",
        ("RecursionError", *TIME, ""),
    ),
    "a repr of a huge text": (
        _ODD.format("__repr__(self)", "return 'x' * 10 ** 9") + "Odd()",
        (*MEMORY, "OutputLimit", ""),
    ),
}
SIZES = {
    "a text": ("'x' * 10 ** 11", MEMORY),
    "a text that doubles": ("s = 'x'\nwhile True:\n    s += s", EITHER),
    "a list": ("[0] * 10 ** 12", MEMORY),
    "a list that doubles": ("x = [1]\nwhile True:\n    x += x", EITHER),
    "bytes": ("bytes(10 ** 12)", MEMORY),
    "a range as a list": ("list(range(10 ** 10))", EITHER),
    "a dict": ("import itertools\ndict(zip(itertools.count(), itertools.count()))", EITHER),
    "a join": ("''.join('abc' for _ in iter(int, 1))", EITHER),
    "padding": ("'x'.ljust(10 ** 11)", MEMORY),
    "a width of %": ("'%0*d' % (10 ** 10, 1)", (*MEMORY, "OverflowError", "ValueError")),
    "a width of an f-string": ("f'{1:{10 ** 10}}'", (*MEMORY, "ValueError", "OverflowError")),
    "a width of format": ("'{:>10000000000}'.format('x')", (*MEMORY, "ValueError")),
    "replacement": ("('a' * 10 ** 6).replace('a', 'b' * 10 ** 6)", (*MEMORY, "OverflowError")),
    "translation": ("('a' * 10 ** 6).translate({97: 'b' * 10 ** 5})", EITHER),
    "an array": ("np.ones((10 ** 5, 10 ** 5))", MEMORY),
    "an array of numbers": ("np.arange(10 ** 11)", MEMORY),
    "a repeated array": ("np.repeat(np.arange(1000), 10 ** 9)", (*MEMORY, "ValueError")),
    "a tiled array": ("np.tile(np.ones(10 ** 4), 10 ** 7)", MEMORY),
    "a product of arrays": ("np.multiply.outer(np.ones(10 ** 6), np.ones(10 ** 6))", (*MEMORY, "NotAllowed")),
    "a grid": ("np.meshgrid(np.arange(10 ** 5), np.arange(10 ** 5))", (*MEMORY, "AttributeError")),
    "a cross join": ("f = pd.DataFrame({'a': range(10 ** 5)})\nf.merge(f, how='cross')", EITHER),
    "tables in a row": ("pd.concat([df('rows')] * 10 ** 7)", EITHER),
    "dates": ("pd.date_range('1700-01-01', '2200-01-01', freq='ms')", (*MEMORY, "ValueError", "OutOfBoundsDatetime")),
    "a repeated column": ("df('rows')['t'].str.repeat(10 ** 10)", (*MEMORY, "OverflowError")),
    "dummies": ("pd.get_dummies(pd.Series(range(10 ** 5)))", EITHER),
    "a pivot": (
        "f = pd.DataFrame({'a': range(10 ** 5), 'v': 1})\nf.pivot_table(index='a', columns=f['a'] * 2, values='v')",
        (*EITHER, "ValueError"),
    ),
    "a table made wide": ("pd.DataFrame({i: [0] for i in range(10 ** 7)})", EITHER),
    "a billion laughs": ("x = ['lol'] * 10\nfor _ in range(12):\n    x = [x] * 10\nx", (*EITHER, "OutputLimit")),
    "a laugh of dicts": (
        "x = {'a': 'lol' * 100}\nfor _ in range(30):\n    x = {'a': x, 'b': x}\nx",
        (*EITHER, "OutputLimit"),
    ),
    "a value too big": ("['x' * 10 ** 6] * 60", (*EITHER, "OutputLimit")),
    "names without end": (
        "for i in range(10 ** 6):\n    globals()[f'x{i}'] = i",
        (*EITHER, "NotAllowed", "NameError", ""),
    ),
    "output without end": ("while True: print('x' * 10 ** 4)", EITHER),
    "one huge output": ("print('x' * 10 ** 10)", MEMORY),
    "output of everything": ("print(*range(10 ** 9))", EITHER),
    "output of nothing": ("while True: print()", TIME),
    "output in pieces": ("while True: print('', end='')", TIME),
}
DEPTH = {
    "recursion": ("def f(): return f()\nf()", DEEP),
    "recursion of two": ("def f(): return g()\ndef g(): return f()\nf()", DEEP),
    "recursion of a lambda": ("f = lambda: f()\nf()", DEEP),
    "recursion of a generator": ("def g():\n    yield from g()\nlist(g())", DEEP),
    "recursion in a sort": ("def key(n): return sorted([n], key=key)\nkey(1)", DEEP),
    "recursion in map": ("def f(n): return list(map(f, [n]))\nf(1)", DEEP),
    "a deep list": ("x = []\nfor _ in range(10 ** 5):\n    x = [x]\nx", (*DEEP, "")),
    "a deep dict": ("x = {}\nfor _ in range(10 ** 5):\n    x = {'a': x}\nx", (*DEEP, "")),
    "a deep list compared": ("x, y = [], []\nfor _ in range(10 ** 5):\n    x, y = [x], [y]\nx == y", DEEP),
    "a list of itself": ("x = []\nx.append(x)\nx", (*DEEP, "ValueError", "")),
    "a dict of itself": ("x = {}\nx['x'] = x\nx", (*DEEP, "ValueError", "")),
    "deep JSON": ("import json\njson.loads('[' * 10 ** 6)", (*DEEP, "JSONDecodeError", "ValueError")),
    "a deep regular expression": (
        "import re\nre.compile('(' * 10 ** 4 + ')' * 10 ** 4)",
        (*DEEP, *TIME, "error", "PatternError", "OverflowError", ""),
    ),
    "a deep copy": ("import copy\nx = []\nfor _ in range(10 ** 5):\n    x = [x]\ncopy.deepcopy(x)", DEEP),
    "brackets": ("[" * 1000 + "]" * 1000, DEEP),
    "parentheses": ("(" * 5000 + ")" * 5000, DEEP),
    "a long sum": ("1 + " * 50_000 + "1", (*DEEP, *TIME, "")),
    "signs": ("-" * 50_000 + "1", (*DEEP, *TIME)),
    "negations": ("not " * 50_000 + "1", (*DEEP, *TIME)),
    "lambdas": ("lambda: " * 5_000 + "1", (*DEEP, *TIME)),
    "conditions": ("1 if 1 else " * 10_000 + "1", (*DEEP, *TIME)),
    "attributes": ("x = 1\nx" + ".real" * 50_000, (*DEEP, *TIME)),
    "subscripts": ("x = [1]\nx" + "[0]" * 50_000, (*DEEP, *TIME)),
    "calls": ("f = str\nf" + "()" * 50_000, (*DEEP, *TIME)),
    "indentation": ("".join(" " * n + "if 1:\n" for n in range(500)) + " " * 500 + "1", DEEP),
    "loops in loops": ("".join(" " * n + f"for i{n} in [1]:\n" for n in range(60)) + " " * 60 + "1", DEEP),
    "comprehensions": ("[0" + " for a in [1]" * 5_000 + "]", (*DEEP, *TIME, "")),
    "a chain of names": (" = ".join(f"x{n}" for n in range(20_000)) + " = 1", (*DEEP, *TIME, "")),
    "a chain of comparisons": ("1" + " < 2" * 50_000, (*DEEP, *TIME, "")),
    "many statements": ("x = 1\n" * 150_000, (*DEEP, *TIME, "")),
    "many functions": ("def f(): pass\n" * 60_000, (*DEEP, *TIME, "")),
    "f-strings in f-strings": ("f'{" * 200 + "1" + "}'" * 200, DEEP),
    "a match": ("match [1]:\n" + "".join(f"    case [{n}]: pass\n" for n in range(20_000)), (*DEEP, *TIME, "")),
    "a pattern": ("match 1:\n    case " + "[" * 500 + "]" * 500 + ": pass", DEEP),
    "code too long": ("#" * 1_000_001, ("SyntaxError",)),
}
GROUPS = {"numbers": NUMBERS, "loops": LOOPS, "stubborn": STUBBORN, "evil": EVIL, "sizes": SIZES, "depth": DEPTH}
ATTACKS = {f"{group}: {name}": attack for group, attacks in GROUPS.items() for name, attack in attacks.items()}
