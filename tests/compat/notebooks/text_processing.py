# %%
import re
from collections import Counter
text = "The quick brown fox jumps over the lazy dog. The end."
word = re.compile(r"\b(\w+)\b", re.I)
counts = Counter(w.lower() for w in word.findall(text))
counts.most_common(1)
# %%
counts.update(["fox", "fox"])
counts["fox"], counts["missing"], "missing" in counts
# %%
m = re.search(r"(?P<adj>quick|slow) (?P<col>\w+)", text)
m.group("col"), m.span(), m.groupdict()
# %%
m["adj"], m.re.pattern, m.string is text, m.start("col")
# %%
def swap(match):
    return match.group(0)[::-1]
word.sub(swap, "abc def"), (counts - Counter(the=2)).most_common(2)
# %%
lines = text.splitlines()
vocab = {w: i for i, w in enumerate(sorted(counts))}
bag = [vocab[w.lower()] for w in word.findall("the fox")]
bag, word.flags & re.I != 0
# %%
import string
tmpl = string.Template("$who likes $what")
trans = str.maketrans("aeiou", "*****")
tmpl.substitute(who="ann", what="tea"), text.translate(trans)[:9]
