"""SQL over variables: real queries say what pandas says, and what is not there is explained."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sampled import sampled

from byref_sandbox import EXACT, Data, Outcome, Sandbox
from byref_sandbox.code import sqltext
from byref_sandbox.code.sqltext import Reference

REGIONS = ("north", "south", "east", "west")
ORDERS = [
    {
        "id": n,
        "code": f"{n:05d}",
        "region": REGIONS[n % 4],
        "customer": n % 25,
        "amount": round((n * 37 % 1000) / 7, 2),
        "units": n * 7 % 13,
        "paid": n % 3 == 0,
        "discount": None if n % 5 else n % 11,
        "at": f"2024-{n % 12 + 1:02d}-{n % 28 + 1:02d}T08:{n % 60:02d}:00",
        "items": [{"sku": f"s{(n + k) % 6}", "n": k + 1} for k in range(n % 4)],
        "address": {"city": f"c{n % 7}", "zip": {"code": n % 3}},
        "tags": ["new", "vip"][: n % 3],
    }
    for n in range(400)
]
CUSTOMERS = [{"customer": n, "name": f"Customer {n}", "tier": "gold" if n % 4 == 0 else None} for n in range(30)]
PAGE = {"total": 2, "result": {"rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}, "meta": [{"k": 1}]}
VARIABLES: dict[str, object] = {
    "orders": ORDERS,
    "customers": CUSTOMERS,
    "page": PAGE,
    "count": 7,
    "words": "plain text",
}

SALES = pd.DataFrame(ORDERS).assign(at=lambda f: pd.to_datetime(f["at"]))
C = pd.DataFrame(CUSTOMERS)


def records(value: object) -> Any:
    """Rows as plain values: floats rounded, missing ones None, dates as text."""

    def plain(cell: Any) -> Any:
        if isinstance(cell, list):
            return [plain(member) for member in cell]
        if isinstance(cell, dict):
            return {key: plain(member) for key, member in cell.items()}
        if isinstance(cell, pd.Timestamp | datetime.date):
            return cell.isoformat()
        if cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, float) and cell != cell):
            return None
        cell = cell.item() if hasattr(cell, "item") else cell
        return round(float(cell), 6) if isinstance(cell, int | float) and not isinstance(cell, bool) else cell

    if isinstance(value, pd.DataFrame):
        value = value.astype(object).to_dict("records")
    return plain(value)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({name: list(column) for name, column in columns.items()})


def by(keys: str | list[str], **aggregates: tuple[str, str]) -> pd.DataFrame:
    return SALES.groupby(keys, as_index=False).agg(**aggregates)


EXPLODED = SALES[["id", "items"]].explode("items").dropna()
EXPLODED = EXPLODED.assign(sku=EXPLODED["items"].str["sku"], n=EXPLODED["items"].str["n"])

QUERIES: list[tuple[str, Callable[[], object]]] = [
    ("SELECT region, sum(amount) AS s FROM $orders GROUP BY 1 ORDER BY 1", lambda: by("region", s=("amount", "sum"))),
    ("SELECT region, sum(amount) AS s FROM orders GROUP BY region ORDER BY region;", lambda: by("region", s=("amount", "sum"))),
    ('SELECT region, avg(units) AS m FROM "orders" GROUP BY ALL ORDER BY ALL', lambda: by("region", m=("units", "mean"))),
    ("SELECT count(*) AS n FROM `orders`", lambda: frame(n=[400])),
    ("SELECT count(*) AS n FROM '$orders'", lambda: frame(n=[400])),
    ("select COUNT(*) as n from ORDERS", lambda: frame(n=[400])),
    ("FROM $orders SELECT max(amount) AS m", lambda: frame(m=[SALES.amount.max()])),
    ("SELECT $orders.id FROM $orders WHERE $orders.id < 3 ORDER BY $orders.id", lambda: frame(id=[0, 1, 2])),
    ("SELECT code FROM orders WHERE id = 7", lambda: frame(code=["00007"])),
    ("SELECT sum(units) AS s, typeof(sum(units)) AS t FROM orders", lambda: frame(s=[SALES.units.sum()], t=["HUGEINT"])),
    ("SELECT count(discount) AS n, sum(discount) AS s FROM orders", lambda: frame(n=[SALES.discount.count()], s=[SALES.discount.sum()])),
    ("SELECT median(amount) AS m, quantile_cont(amount, 0.9) AS q FROM orders", lambda: frame(m=[SALES.amount.median()], q=[SALES.amount.quantile(0.9)])),
    ("SELECT stddev(amount) AS s, corr(amount, units) AS c FROM orders", lambda: frame(s=[SALES.amount.std()], c=[SALES.amount.corr(SALES.units)])),
    ("SELECT count(DISTINCT customer) AS n FROM orders WHERE paid", lambda: frame(n=[SALES[SALES.paid].customer.nunique()])),
    ("SELECT region, count(*) FILTER (WHERE paid) AS n FROM orders GROUP BY 1 ORDER BY 1", lambda: SALES.groupby("region").paid.sum().reset_index(name="n")),
    ("SELECT region FROM orders GROUP BY 1 HAVING sum(amount) > 7200 ORDER BY 1", lambda: by("region", s=("amount", "sum")).query("s > 7200")[["region"]]),
    ("SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 5", lambda: SALES.sort_values(["amount", "id"], ascending=[False, True])[["id", "amount"]].head(5)),
    ("SELECT id FROM orders ORDER BY id LIMIT 3 OFFSET 10", lambda: frame(id=[10, 11, 12])),
    ("SELECT DISTINCT units FROM orders ORDER BY 1", lambda: frame(units=sorted(SALES.units.unique()))),
    ("SELECT month(\"at\") AS m, sum(amount) AS s FROM orders GROUP BY 1 ORDER BY 1", lambda: SALES.groupby(SALES["at"].dt.month.rename("m")).amount.sum().reset_index(name="s")),
    ("SELECT date_trunc('quarter', \"at\") AS q, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1", lambda: frame(q=[f"2024-{m:02d}-01T00:00:00" for m in (1, 4, 7, 10)], n=SALES.groupby(SALES["at"].dt.quarter).size())),
    ("SELECT min(\"at\") AS a, max(\"at\") AS b FROM orders", lambda: frame(a=[SALES["at"].min()], b=[SALES["at"].max()])),
    ("SELECT count(*) AS n FROM orders WHERE \"at\" >= '2024-06-01' AND \"at\" < DATE '2024-07-01'", lambda: frame(n=[(SALES["at"].dt.month == 6).sum()])),
    ("SELECT strftime(\"at\", '%b') AS m FROM orders WHERE id < 3 ORDER BY id", lambda: frame(m=["Jan", "Feb", "Mar"])),
    ("SELECT c.name, sum(o.amount) AS s FROM orders o JOIN customers c USING (customer) GROUP BY 1 ORDER BY 2 DESC LIMIT 3", lambda: SALES.merge(C, on="customer").groupby("name", as_index=False).agg(s=("amount", "sum")).nlargest(3, "s")),
    ("SELECT c.customer FROM $customers c LEFT JOIN $orders o ON o.customer = c.customer WHERE o.id IS NULL ORDER BY 1", lambda: frame(customer=range(25, 30))),
    ("SELECT c.customer, count(o.id) AS n FROM customers c LEFT JOIN orders o ON c.customer = o.customer GROUP BY 1 ORDER BY 1 DESC LIMIT 6", lambda: frame(customer=range(29, 23, -1), n=[0, 0, 0, 0, 0, 16])),
    ("SELECT coalesce(tier, 'none') AS tier, count(*) AS n FROM customers GROUP BY 1 ORDER BY 1", lambda: frame(tier=["gold", "none"], n=[8, 22])),
    ("SELECT a.id FROM orders a, orders b WHERE a.id = b.id + 398 ORDER BY 1", lambda: frame(id=[398, 399])),
    ("SELECT count(*) AS n FROM orders WHERE customer IN (SELECT customer FROM customers WHERE tier = 'gold')", lambda: frame(n=[SALES.customer.isin(C[C.tier == "gold"].customer).sum()])),
    ("SELECT count(*) AS n FROM customers c WHERE EXISTS (FROM orders o WHERE o.customer = c.customer AND o.amount > 142)", lambda: frame(n=[SALES[SALES.amount > 142].customer.nunique()])),
    ("WITH s AS (SELECT region, sum(amount) AS t FROM orders GROUP BY 1) SELECT region, t / (SELECT sum(t) FROM s) AS share FROM s ORDER BY 1", lambda: by("region", t=("amount", "sum")).assign(share=lambda f: f.t / f.t.sum())[["region", "share"]]),
    ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 10) SELECT sum(n) AS s FROM t", lambda: frame(s=[55])),
    ("SELECT id, sum(amount) OVER (ORDER BY id) AS c FROM orders ORDER BY id LIMIT 4", lambda: SALES.assign(c=SALES.amount.cumsum())[["id", "c"]].head(4)),
    ("SELECT region, id FROM orders QUALIFY row_number() OVER (PARTITION BY region ORDER BY amount DESC, id) = 1 ORDER BY 1", lambda: SALES.sort_values(["amount", "id"], ascending=[False, True]).groupby("region", as_index=False).first()[["region", "id"]]),
    ("SELECT id, amount - lag(amount) OVER (ORDER BY id) AS d FROM orders ORDER BY id LIMIT 3", lambda: SALES.assign(d=SALES.amount.diff())[["id", "d"]].head(3)),
    ("SELECT rank() OVER (ORDER BY units) AS r FROM orders ORDER BY r DESC, id LIMIT 1", lambda: frame(r=[int(SALES.units.rank(method="min").max())])),
    ("SELECT i.sku AS sku, sum(i.n) AS n FROM orders, unnest(orders.items) AS u(i) GROUP BY 1 ORDER BY 1", lambda: EXPLODED.groupby("sku", as_index=False)["n"].sum()),
    ("SELECT id, unnest(items, recursive := true) FROM orders WHERE id < 4 ORDER BY id", lambda: EXPLODED[EXPLODED.id < 4][["id", "sku", "n"]]),
    ("SELECT items[1].sku AS first FROM orders WHERE id = 3", lambda: frame(first=["s3"])),
    ("SELECT address.city AS city, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1", lambda: frame(city=[f"c{n}" for n in range(7)], n=SALES.groupby(SALES.address.str["city"]).size())),
    ("SELECT max(address.zip.code) AS m FROM orders", lambda: frame(m=[2])),
    ("SELECT len(tags) AS n, count(*) AS c FROM orders GROUP BY 1 ORDER BY 1", lambda: frame(n=[0, 1, 2], c=SALES.groupby(SALES.tags.str.len()).size())),
    ("SELECT count(*) AS n FROM orders WHERE list_contains(tags, 'vip')", lambda: frame(n=[SALES.tags.map(lambda t: "vip" in t).sum()])),
    ("SELECT to_json(address) ->> '$.zip.code' AS z FROM orders WHERE id = 4", lambda: frame(z=["1"])),
    ("SELECT items, address FROM orders WHERE id = 1", lambda: SALES[SALES.id == 1][["items", "address"]]),
    ("SELECT list(id ORDER BY id) AS ids FROM orders WHERE id < 3", lambda: frame(ids=[[0, 1, 2]])),
    ("SELECT region, string_agg(code, ',' ORDER BY code) AS codes FROM orders WHERE id < 6 GROUP BY 1 ORDER BY 1", lambda: frame(region=["east", "north", "south", "west"], codes=["00002", "00000,00004", "00001,00005", "00003"])),
    ("SELECT CASE WHEN amount > 100 THEN 'big' ELSE 'small' END AS size, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1", lambda: frame(size=["big", "small"], n=[(SALES.amount > 100).sum(), (SALES.amount <= 100).sum()])),
    ("SELECT upper(region) AS r, length(region) AS n FROM orders WHERE regexp_matches(region, '^n') LIMIT 1", lambda: frame(r=["NORTH"], n=[5])),
    ("PIVOT orders ON region USING sum(units) GROUP BY paid ORDER BY paid", lambda: SALES.pivot_table(index="paid", columns="region", values="units", aggfunc="sum").reset_index()),
    ("SELECT region, paid, count(*) AS n FROM orders GROUP BY ROLLUP (region, paid) HAVING region IS NULL", lambda: frame(region=[None], paid=[None], n=[400])),
    ("SELECT id FROM orders WHERE id < 2 UNION ALL SELECT customer FROM customers WHERE customer > 28 ORDER BY 1", lambda: frame(id=[0, 1, 29])),
    ("SELECT customer FROM customers EXCEPT SELECT customer FROM orders ORDER BY 1", lambda: frame(customer=range(25, 30))),
    ("SELECT * FROM $page.result.rows ORDER BY a", lambda: frame(a=[1, 2], b=["x", "y"])),
    ("SELECT sum(meta.k) AS s FROM page.meta", lambda: frame(s=[1])),
    ("SELECT column_name FROM (DESCRIBE customers)", lambda: frame(column_name=["customer", "name", "tier"])),
    ("SELECT column_name, min FROM (SUMMARIZE customers) WHERE column_name = 'customer'", lambda: frame(column_name=["customer"], min=["0"])),
    ("VALUES (1, 'a'), (2, 'b')", lambda: frame(col0=[1, 2], col1=["a", "b"])),
    ("SELECT 1.5 AS a, 0.1 + 0.2 AS b, DATE '2024-02-29' AS d, INTERVAL 36 HOUR AS i", lambda: frame(a=[1.5], b=[0.3], d=["2024-02-29T00:00:00"], i=["P1DT12H0M0S"])),
    ("SELECT 9007199254740993 AS a, 170141183460469231731687303715884105727::HUGEINT AS b", lambda: None),
    ("SELECT map {'a': 1} AS m, {'k': [1, 2]} AS s, NULL AS z, true AS t", lambda: [{"m": {"a": 1}, "s": {"k": [1, 2]}, "z": None, "t": True}]),
    ("SELECT 'it''s $orders' AS a, $$ $orders; -- $$ AS b /* ; $x */ -- ; $y", lambda: frame(a=["it's $orders"], b=[" $orders; -- "])),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), sampled(QUERIES, 3), ids=[query[:80] for query, _ in QUERIES])
def test_a_query_says_what_pandas_says(sandbox: Sandbox, query: str, expected: Callable[[], object]) -> None:
    outcome = sandbox.sql(query, VARIABLES)
    assert outcome.error is None
    assert outcome.kind == "dataframe"
    if (value := expected()) is not None:
        assert records(outcome.value) == records(value)
    else:
        assert outcome.value == [{"a": 2**53 + 1, "b": 2**127 - 1}]


def test_columns_that_arrow_does_not_take_as_they_are(sandbox: Sandbox) -> None:
    table = pd.DataFrame(
        {
            "short": np.array([1.5, 2], dtype="float16"),
            "swapped": np.array([1, 2], dtype=">i4"),
            "sparse": pd.arrays.SparseArray([0, 7]),
            "lists": [np.array([1], dtype="float16")] * 2,
        }
    )
    outcome = sandbox.sql(
        "SELECT sum(short) AS a, sum(swapped) AS b, sum(sparse) AS c, max(lists) AS d FROM t", {"t": table}
    )
    assert (outcome.error, outcome.value) == (None, [{"a": 3.5, "b": 3, "c": 7, "d": "[1.0]"}])
    assert sandbox.sql("SELECT typeof(short) AS t FROM t LIMIT 1", {"t": table}).value == [{"t": "FLOAT"}]


def test_bins_are_texts(sandbox: Sandbox) -> None:
    table = pd.DataFrame({"n": [50, 120, None, 130], "o": ["a", "b", "a", "a"]})
    table = table.assign(bin=pd.cut(table["n"], [0, 100, 150]))
    given: Any = {
        "t": table,
        "counts": table["bin"].value_counts(),
        "two": table.groupby(["bin", "o"], observed=True)[["n"]].sum(),
        "plain": pd.DataFrame({"bin": pd.array([pd.Interval(0.5, 100.0), None])}),
        "months": pd.DataFrame({"m": pd.array(["2024-01", None], dtype="period[M]")}).astype("category"),
    }

    def found(query: str) -> Any:
        return records(sandbox.sql(query, given).value)

    assert found("SELECT bin, count(*) AS n FROM t GROUP BY 1 ORDER BY 1") == [
        {"bin": "(0, 100]", "n": 1},
        {"bin": "(100, 150]", "n": 2},
        {"bin": None, "n": 1},
    ]
    assert found("SELECT count FROM counts WHERE bin LIKE '(100,%'") == [{"count": 2}]
    assert found("SELECT bin, o FROM two WHERE n = 130") == [{"bin": "(100, 150]", "o": "a"}]
    assert found("SELECT bin FROM plain") == [{"bin": "(0.5, 100.0]"}, {"bin": None}]
    assert found("SELECT m FROM months") == [{"m": "2024-01"}, {"m": None}]


@pytest.mark.parametrize("zone", ["+01:00", "-08:00", "+05:30", "America/New_York", "Etc/GMT", "Etc/GMT+3"])
def test_days_are_those_of_the_zone_that_all_times_have(sandbox: Sandbox, zone: str) -> None:
    moments = pd.Series(pd.date_range("2024-03-01 00:30", periods=3, tz=zone, unit="us"))
    texts = [{"at": moment.isoformat()} for moment in moments]
    given: Any = {"t": texts if zone[0] in "+-" else pd.DataFrame({"at": moments})}
    found = sandbox.sql('SELECT "at"::DATE::VARCHAR AS day, hour("at") AS hour, "at" FROM t ORDER BY 1', given).value
    in_utc = moments.dt.tz_convert("UTC") if zone == "+05:30" else moments  # of offsets DuckDB has whole hours
    assert [(row["day"], row["hour"]) for row in found] == [(str(one.date()), one.hour) for one in in_utc]
    assert [pd.Timestamp(row["at"]) for row in found] == list(moments)


def test_days_of_several_zones_are_those_of_utc(sandbox: Sandbox) -> None:
    given: Any = {"a": [{"at": "2024-03-01T00:30:00+01:00"}], "b": [{"at": "2024-03-01T00:30:00Z"}]}
    found = sandbox.sql('SELECT a."at"::DATE::VARCHAR AS a, b."at"::DATE::VARCHAR AS b FROM a, b', given).value
    assert found == [{"a": "2024-02-29", "b": "2024-03-01"}]


def test_integers_are_whole_and_exact(sandbox: Sandbox) -> None:
    big = [{"n": 2**62 + k, "m": None if k else 2**62 + 1, "huge": 2**70} for k in range(3)]
    outcome = sandbox.sql("SELECT sum(n) AS s, max(m) AS m, min(huge) AS h, count(m) AS c FROM big", {"big": big})
    assert outcome.value == [{"s": 3 * 2**62 + 3, "m": 2**62 + 1, "h": 2**70, "c": 1}]


@pytest.mark.parametrize(
    ("numbers", "kind", "total"),
    [
        ([1, None, 2], "BIGINT", 3),
        ([1.5, None, 2], "DOUBLE", 3.5),
        ([None, -(2**53), 3], "BIGINT", 3 - 2**53),
        ([2**53 + 1, None], "BIGINT", 2**53 + 1),
        ([1e300, None, 1], "DOUBLE", 1e300),
        ([1e19, None, 1], "DOUBLE", 1e19),
        ([True, None, False], "BOOLEAN", 1),
    ],
)
@pytest.mark.parametrize("times", [1, 3_000])
def test_integers_with_nulls_are_integers(
    sandbox: Sandbox, numbers: list[float | None], kind: str, total: float, times: int
) -> None:
    text = json.dumps([{"n": n} for n in numbers * times]).encode()
    rows = Data(f"integers with nulls {numbers} {times}", lambda: text)
    query = "SELECT typeof(any_value(n)) AS kind, sum(n) AS total FROM t"
    if kind == "BOOLEAN":
        query = "SELECT typeof(any_value(n)) AS kind, count(*) FILTER (n) AS total FROM t"
    for _ in range(2):
        [row] = records(sandbox.sql(query, {"t": rows}, session="integers with nulls").value)
        assert (row["kind"], row["total"]) == (kind, pytest.approx(total * times))


def test_what_code_left_as_floats_are_floats(sandbox: Sandbox) -> None:
    made = pd.DataFrame({"n": [1.0, None, 2.0]})
    kept = sandbox.run("u = t.copy()", {"t": made}).bound["u"]
    exact = Data("floats with nulls", lambda: kept.exact, EXACT, frame=True)
    for table in (made, exact):
        assert sandbox.sql("SELECT typeof(any_value(n)) AS kind FROM t", {"t": table}).value == [{"kind": "DOUBLE"}]


def test_mixtures_are_json(sandbox: Sandbox) -> None:
    rows = [{"v": 1}, {"v": "a"}, {"v": {"k": [5]}}, {"v": None}, {"v": {}}]
    assert sandbox.sql("SELECT count(v) AS n, typeof(any_value(v)) AS t FROM rows", {"rows": rows}).value == [
        {"n": 4, "t": "JSON"}
    ]
    assert sandbox.sql("SELECT v->'$.k[0]' AS x FROM rows WHERE json_type(v) = 'OBJECT'", {"rows": rows}).value == [
        {"x": "5"},
        {"x": None},
    ]
    maps = [{"v": {f"k{number}": number}} for number in range(300)]
    assert sandbox.sql("SELECT v->>'k299' AS x FROM maps WHERE v->>'k299' IS NOT NULL", {"maps": maps}).value == [
        {"x": "299"}
    ]


def test_odd_names(sandbox: Sandbox) -> None:
    rows = [{"order": 1, "Order": 2, "": 3, "a b": 4, 'q"t': 5, "ünï": 6}]
    outcome = sandbox.sql('SELECT "order" + 1 AS o, "a b" AS b, "q""t" AS q, ünï FROM $order', {"order": rows})
    assert outcome.error is None
    assert outcome.value == [{"o": 2, "b": 4, "q": 5, "ünï": 6}]


def test_dataframes_keep_their_types(sandbox: Sandbox) -> None:
    made = pd.DataFrame(
        {"d": pd.to_datetime(["2024-01-01", None]), "c": pd.Categorical(["x", "y"]), "t": pd.to_timedelta([1, 2], "h")}
    ).set_index(pd.Index(["a", "b"], name="key"))
    outcome = sandbox.sql("SELECT key, year(d) AS y, c::VARCHAR AS c, t FROM made ORDER BY key", {"made": made})
    assert outcome.value == [
        {"key": "a", "y": 2024, "c": "x", "t": "P0DT1H0M0S"},
        {"key": "b", "y": None, "c": "y", "t": "P0DT2H0M0S"},
    ]


def test_a_result_is_kept_for_code_and_for_sql(sandbox: Sandbox) -> None:
    first = sandbox.sql("SELECT region, sum(units) AS u FROM orders GROUP BY 1", VARIABLES, keep="totals")
    made = first.bound["totals"]
    assert (made.kind, made.shape) == ("dataframe", "DataFrame of 4 rows and 2 columns")
    totals = Data("totals", lambda: made.exact, EXACT, frame=True)
    assert sandbox.run("int(totals['u'].sum())", {"totals": totals}).value == SALES.units.sum()
    assert sandbox.sql("SELECT sum(u) AS s FROM totals", {"totals": totals}).value == [{"s": SALES.units.sum()}]


def test_only_what_is_named_is_loaded_and_only_once(sandbox: Sandbox) -> None:
    loads: list[str] = []

    def data(name: str, value: object) -> Data:
        def load() -> bytes:
            loads.append(name)
            return json.dumps(value).encode()

        return Data(f"{name}-of-this-test", load)

    variables = {"orders": data("orders", ORDERS), "customers": data("customers", CUSTOMERS)}
    for _ in range(3):
        assert sandbox.sql("SELECT count(*) AS n FROM orders", variables, session="s").value == [{"n": 400}]
    assert loads == ["orders"]
    assert sandbox.run("len(df('orders'))", variables, session="s").value == 400
    assert loads == ["orders"]


def test_a_big_result_is_shown_in_part_and_whole_in_the_outcome(sandbox: Sandbox) -> None:
    outcome = sandbox.sql("SELECT range AS n FROM range(100000)")
    assert outcome.text.startswith("100,000 rows × 1 column; first 10 and last 10 rows shown")
    assert outcome.exact
    assert sandbox.sql("SELECT range AS n FROM range(0)").text == "0 rows × 1 column\nn"


def test_from_is_not_always_before_a_table(sandbox: Sandbox) -> None:
    rows = [
        {"status": status, "open": "paid", "from": "a", "meta": {"day": "2024-01-02"}}
        for status in ("open", "paid", "late")
    ]
    for query, expected in (
        ("SELECT status FROM t WHERE status IS DISTINCT FROM 'open' ORDER BY 1", ["late", "paid"]),
        ("SELECT status FROM t WHERE status IS NOT DISTINCT FROM 'open'", ["open"]),
        ("SELECT trim(both 'x' FROM 'xabcx')", ["abc"]),
        ("SELECT DISTINCT extract(year FROM t.meta.day::DATE) FROM t", [2024]),
        ("SELECT DISTINCT t.from || 'b' FROM t", ["ab"]),
        ("SELECT count(*) FROM (SELECT DISTINCT open FROM 't')", [1]),
    ):
        outcome = sandbox.sql(query, {"t": rows})
        assert outcome.error is None and [value for row in outcome.value for value in row.values()] == expected, query


def test_names_of_tables_and_columns(sandbox: Sandbox) -> None:
    """Of tools that are called like a database's own catalog, with a dollar of their own, and like others but for case."""
    rows = [{"$ref": "r1", "_id": {"$oid": "abc"}}]
    variables = {
        "pg_query": rows,
        "sqlite_x": rows,
        "duckdb_y": rows,
        "Orders": rows,
        "orders": [*rows, *rows],
        "none": [],
    }
    for query, expected in (
        ("SELECT count(*) AS n FROM $pg_query, sqlite_x, duckdb_y", 1),
        ('SELECT "$ref" FROM "$orders"', "r1"),
        ('SELECT "$orders"._id."$oid" FROM "$orders"', "abc"),
        ('SELECT a$b AS "$c" FROM (SELECT 1 AS a$b)', 1),
        ("WITH query(a) AS (SELECT 3) SELECT a FROM query", 3),
        ("SELECT count(*) FROM ORDERS", 2),
        ("SELECT count(*) FROM Orders", 1),
    ):
        outcome = sandbox.sql(query, variables)
        assert outcome.error is None and next(iter(outcome.value[0].values())) == expected, (query, outcome.error)
    for query, kind, message in (
        ("SELECT * FROM Orders WHERE 1 IN (FROM orders)", "NotAllowed", "Orders and orders differ in case alone"),
        ("SELECT * FROM none", "ValueError", "none is an empty list"),
        ("SELECT * FROM pg_tables", "NotAllowed", "there is no list of tables"),
        ("SELECT * FROM pg_settings", "NotAllowed", "pg_settings is not available"),
        ("WITH query(a) AS (SELECT 3) SELECT a FROM query('SELECT 1')", "NotAllowed", "query is not available"),
        ('SELECT * FROM "rows.csv"', "ValueError", "SQL reads no files"),
    ):
        error = sandbox.sql(query, variables).error
        assert error is not None and error.kind == kind and message in error.message, error


def test_columns_that_differ_in_case_alone(sandbox: Sandbox) -> None:
    rows = {"t": [{"userId": 1, "userid": "x"}, {"userId": 2, "userid": "y"}], "u": [{"userid": "x"}]}
    for query, expected in (
        ("SELECT userId FROM t", [1, 2]),
        ('SELECT "userid_2" FROM t', ["x", "y"]),
        ("SELECT userid FROM u", ["x"]),
    ):
        outcome = sandbox.sql(query, rows)
        assert outcome.error is None and [next(iter(row.values())) for row in outcome.value] == expected, query
    for query in (
        "SELECT userid FROM t",
        'SELECT t."userid" FROM t',
        "SELECT USERID FROM t",
        "SELECT userId, userid FROM t",
    ):
        error = sandbox.sql(query, rows).error
        assert error is not None and error.kind == "NotAllowed" and error.hint is not None, query
        assert error.message == "userId and userid of t differ in case alone, which SQL does not see"
        assert error.hint == 'write userId for the first, and "userid_2" for userid'


def test_half_of_a_surrogate_pair_leaves_a_column_text(sandbox: Sandbox) -> None:
    rows = Data("cut", lambda: b'[{"t":"message 8"},{"t":"cut \\ud83d"},{"t":null}]')
    query = (
        "SELECT count(*) AS n, max(length(t)) AS most, typeof(min(t)) AS kind FROM rows WHERE t LIKE '%8' OR t IS NULL"
    )
    assert sandbox.sql(query, {"rows": rows}).value == [{"n": 2, "most": 9, "kind": "VARCHAR"}]


@pytest.mark.parametrize("value", [[{"\ud83d": 1, "b": "x"}, {"\ud83d": 2}], {"\ud83d": [1, 2], "b": ["x", None]}])
def test_half_of_a_surrogate_pair_in_a_name_is_an_escape(sandbox: Sandbox, value: object) -> None:
    found = sandbox.sql('SELECT sum("\\ud83d") AS n, max(b) AS b FROM rows', {"rows": value})
    assert (found.error, found.value) == (None, [{"n": 3, "b": "x"}])
    frame = sandbox.run("frame = df('rows')\n[list(frame), frame['\\ud83d'].sum()]", {"rows": value})
    assert (frame.error, json.loads(frame.json)) == (None, [["\ud83d", "b"], 3])


FAULTS = {
    "SELECT * FROM main.orders": (
        "NameError",
        "there is no table with the name 'orders'",
        "write orders alone: it is in no schema and no database",
    ),
    "SELECT 5 % 0": (
        "SqlError",
        "Invalid Input Error: Division by zero in expression (5 % 0). Use TRY(...) to return NULL for this expression",
        None,
    ),
    "SELECT * FROM ordrs": ("NameError", "there is no table with the name 'ordrs'", "did you mean orders?"),
    "SELECT * FROM nowhere.rows": ("NameError", "there is no table with the name 'nowhere.rows'", None),
    "SELECT amout FROM orders": ("SqlError", 'Candidate bindings: "amount"', None),
    "SELEC 1": ("SqlError", "syntax error", None),
    "SELECT nosuch(1)": ("SqlError", "nosuch does not exist", None),
    "SELECT min(at) FROM orders": ("SqlError", "syntax error", 'names that are words of SQL go in quotes: "at"'),
    "SELECT CAST('a' AS INT)": ("SqlError", "Could not convert string 'a'", None),
    "SELECT * FROM page": ("ValueError", "page is an object, no table; there is one in it, or more: $page.meta", None),
    "SELECT * FROM page.nope": ("ValueError", "there is no 'nope' in page", None),
    "SELECT * FROM count": ("ValueError", "count is no table: int", None),
    "SELECT * FROM words": ("ValueError", "words is no table: str", None),
    "": ("NotAllowed", "there is no query", "write one SELECT"),
    "-- only words": ("NotAllowed", "there is no query", "write one SELECT"),
    "SELECT 1; SELECT 2": ("NotAllowed", "2 statements; one query is run at a time", "WITH"),
    "SELECT $1": ("SqlError", "", None),
}


@pytest.mark.parametrize("query", FAULTS)
def test_faults_are_explained(sandbox: Sandbox, query: str) -> None:
    kind, message, hint = FAULTS[query]
    error = sandbox.sql(query, VARIABLES).error
    assert error is not None
    assert (error.kind, message in error.message) == (kind, True), error
    assert hint is None or (error.hint is not None and hint in error.hint)
    assert "/" not in error.message.replace("and/or", "")


def test_errors_of_parsing_are_those_of_the_data(sandbox: Sandbox) -> None:
    bad = Data("bad-json", lambda: b"[{]")
    error = sandbox.sql("SELECT * FROM bad", {"bad": bad}, session="bad").error
    assert error is not None
    assert "not JSON" in error.message


REFERENCES = {
    "SELECT a FROM $x, y z, (SELECT b FROM w, v) u JOIN t ON t.i = q.j": ["x", "y", "w", "v", "t"],
    "SELECT a, b FROM x WHERE c IN (SELECT d FROM y) ORDER BY e, f": ["x", "y"],
    "SELECT extract(year FROM d) FROM x, unnest(x.items), LATERAL (SELECT 1 FROM z)": ["x", "z"],
    "SELECT trim(both 'y' FROM a), count(*) FROM x WHERE b IS NOT DISTINCT FROM c AND EXISTS(FROM z)": ["x", "z"],
    "SELECT e.from, 'mail' AS kind FROM x e WHERE a IN (SELECT substring(b FROM 2) FROM y) AND (c) IN (FROM z)": [
        "x",
        "y",
        "z",
    ],
    "DESCRIBE x": ["x"],
    "PIVOT x ON y USING sum(z)": ["x"],
    'SELECT \'$x\', "y" -- FROM z\n /* FROM z */ FROM "w w"': ["w w"],
    "SELECT $$FROM x$$, $tag$ FROM y $tag$, $z.a": ["z"],
    "FROM (x JOIN (y CROSS JOIN z))": ["x", "y", "z"],
}


@pytest.mark.parametrize("query", REFERENCES)
def test_names_are_found(query: str) -> None:
    found = [reference.name for reference in sqltext.references(query)]
    assert sorted(found) == sorted(REFERENCES[query])


def test_paths_are_found() -> None:
    assert sqltext.references('FROM $a.b."c d", e.f') == [
        Reference("a", ("b", "c d")),
        Reference("e", ("f",)),
        Reference("a"),
    ]
    assert sqltext.as_sql('FROM $a.b."c d" x, e.f') == 'FROM "a.b"."c d" x, "e"."f"'


@pytest.mark.slow
@pytest.mark.parametrize("text", ["'" * 99_999, "$" * 100_000, '"' * 99_999, "/*" * 50_000, "(" * 100_000, "$a" * 50_000, "from " * 20_000, ",".join(["a.b"] * 30_000)], ids=lambda text: text[:5])  # fmt: skip
def test_hostile_text_is_scanned_in_no_time(text: str) -> None:
    import time

    began = time.process_time()
    sqltext.references(text)
    sqltext.as_sql(text)
    assert time.process_time() - began < 2


def test_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqltext, "is_available", lambda: False)
    with Sandbox() as sandbox, pytest.raises(RuntimeError, match=r"byref\[sql\]"):
        sandbox.sql("SELECT 1")


def test_arguments(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="no Python identifier"):
        sandbox.sql("SELECT 1", keep="a b")
    error: Outcome = sandbox.sql(" " * 200_001)
    assert error.error is not None
    assert "200,000 characters" in error.error.message
