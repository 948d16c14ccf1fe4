"""Tables with formats and colours come out as pandas writes them; the templates behind them are out of reach."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from reach import reached

from byref_sandbox.language.policy import Language
from byref_sandbox.language.refusal import NotAllowed

FRAME = "d = pd.DataFrame({'a': [1.5, 2, 3], 'b': ['x', '<b>', 'z'], 'c': [3, 1, 2.0]})\ns = d.style.set_uuid('u')\n"

WRITTEN = [
    "s.to_html()",
    "s.format('{:.1f}', subset=['a']).set_caption('Cap').highlight_max(color='red').to_html()",
    "s.format({'a': '{:.2f}', 'b': str.upper}, escape='html').to_html()",
    "s.format(precision=1, na_rep='-', thousands=',').highlight_null().highlight_min(axis=1, subset=['a', 'c']).to_html()",
    "s.highlight_between(left=1, right=2, subset=['a']).highlight_quantile(q_left=.5, subset=['a']).to_html()",
    "s.background_gradient(cmap='viridis', subset=['a', 'c']).text_gradient(subset=['a']).to_html()",
    "s.bar(subset=['a'], color='#d65f5f').bar(subset=['c'], cmap='Reds', align='zero').to_html()",
    "s.apply(lambda v: ['color:red' if x == v.max() else '' for x in v], subset=['a', 'c']).to_html()",
    "s.map(lambda v, p: p if v == 'x' else None, p='color: blue').to_html()",
    "s.apply(lambda t: pd.DataFrame('color: red', t.index, t.columns), axis=None).to_html()",
    "s.apply_index(lambda i: ['x:y'] * len(i)).map_index(lambda v: 'x:y', axis=1).to_html()",
    "s.hide(axis='index').hide(['b'], axis='columns').to_html(caption='c', table_attributes='border=1', bold_headers=True)",
    "s.set_properties(**{'background-color': 'black'}).set_table_styles([{'selector': 'th', 'props': 'color: red'}]).to_html()",
    "s.set_sticky().set_table_attributes('class=\"t\"').set_td_classes(d.map(lambda _v: 'k')).set_tooltips(d.astype(str)).to_html()",
    "s.relabel_index(['A', 'B', 'C {}'], axis=1).format_index(str.upper, axis=1).to_html()",
    "s.concat(d.head(1).style).to_html(max_rows=2)",
    "s.pipe(lambda t, n: t.format(precision=n), 3).to_html()",
    "s.highlight_max(props='textbf:--rwrap', subset=['a']).to_latex(hrules=True, caption='c', label='l')",
    "s.apply(lambda v: ['color:red'] * 3).to_latex(convert_css=True, environment='longtable')",
    "s.format(precision=1).to_string(delimiter=';')",
    "d.style.use(s.highlight_max(subset=['a']).export()).set_uuid('u').to_html()",
    "pd.concat({'x': d, 'y': d}, axis=1).style.set_uuid('u').to_html()",
    "d.pivot_table(index=['b', 'a'], values='c').style.set_uuid('u').to_latex(clines='all;data')",
    "buffer = io.StringIO()\ns.to_html(buffer)\nbuffer.getvalue()",
    "t = copy.deepcopy(s.format(precision=1))\nt.format(precision=3)\ns.to_html() + t.to_html()",
    "s.format(precision=1).clear()\ns.set_uuid('u').to_html()",
    "d.to_latex(), d.to_html(), d.to_string(), d.to_markdown(), d.a.to_latex(), d.a.to_markdown(), d.to_latex(longtable=True, caption='x')",
]


@pytest.fixture(scope="module")
def language() -> Language:
    made = Language()
    made.learn_plots()
    return made


def ran(language: Language, code: str) -> object:
    return language.run(language.compile("import copy, io\n" + FRAME + code), {"pd": pd}, io.StringIO()).value


def plainly(code: str) -> object:
    *before, last = (FRAME + code).split("\n")
    import copy

    space = {"pd": pd, "io": io, "copy": copy}
    exec("\n".join(before), space)
    return eval(last, space)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("code", WRITTEN)
def test_tables_are_written_as_pandas_does(language: Language, code: str) -> None:
    assert ran(language, code) == plainly(code)


def test_older_names_do_what_their_newer_ones_do(language: Language) -> None:
    older = "s.hide_index().hide_columns(['b']).set_precision(1).applymap(lambda v: 'color: red').render()"
    newer = "s.hide().hide(['b'], axis=1).format(precision=1).map(lambda v: 'color: red').to_html()"
    assert ran(language, older) == plainly(newer)


def test_a_table_is_shown_as_text(language: Language) -> None:
    shown = repr(ran(language, "s.format({'a': '{:.1f} kg'}).set_caption('Weights').hide(['c'], axis=1)"))
    assert shown == "3 rows × 3 columns, styled\nWeights\n | a | b\n0 | 1.5 kg | x\n1 | 2.0 kg | <b>\n2 | 3.0 kg | z"
    assert len(repr(ran(language, "pd.concat([d] * 100, ignore_index=True).style"))) < 2_000


def test_a_file_of_the_run_gets_it(language: Language) -> None:
    ran(language, "s.to_html('t.html')\nd.to_markdown('t.md')\nd.to_latex('t.tex')\ns.to_string('t.txt')")
    assert [*language.files.written()] == ["t.html", "t.md", "t.tex", "t.txt"]


@pytest.mark.parametrize(
    "code",
    [
        "s.format('{0.__class__}')",
        "s.format(formatter={'a': '{0.__class__}'})",
        "s.format_index(['{0.__class__}'])",
        "s.relabel_index(['{0.__class__}'] * 3)",
        "class T(str): pass\ns.format({'a': T('{0.__class__}')})",
        "class L(list):\n    n = 0\n    def __iter__(self):\n        self.n += 1\n        return iter(['{0.__class__}'] * 3 if self.n > 1 else ['a'] * 3)\ns.relabel_index(L('abc')).to_html()\ns.relabel_index(['{0.__class__}'] * 3)",
        "type(s)(d, formatter='{0.__class__}')",
        "s.apply('to_pickle')",
        "s.map('to_pickle')",
        "s.apply_index('to_pickle')",
        "s.use({'apply': [(lambda real: real.env, (), {})]})",
        "s.from_custom_template('/etc', 'passwd')",
        "type(s).from_custom_template('/etc', 'passwd')",
        "s.env",
        "s.loader",
        "type(s).env",
        "s.to_excel('x.xlsx')",
        "pd.DataFrame.style",
        "s._real()",
        "s._made",
        "s.export()._calls",
        "s.data = d",
        "type(s).format = print",
        "s.to_html(open)",
    ],
)  # fmt: skip
def test_what_is_behind_it_is_out_of_reach(language: Language, code: str) -> None:
    with pytest.raises(NotAllowed):
        ran(language, code)


def test_nothing_that_must_not_be_had_is_behind_a_table(language: Language) -> None:
    styled: object = ran(
        language, "[s.format(precision=1).highlight_max(), type(s), s.export(), s.data, s.pipe(lambda t: t)]"
    )
    walk = reached(language, {"styled": styled}, 2, 300)
    assert len(walk.seen) > 30
    assert walk.found == []
    kinds = {type(value).__module__.partition(".")[0] for value in walk.seen.values()}
    assert "jinja2" not in kinds
