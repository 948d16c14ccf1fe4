"""The judges of envelopes find what is shown, and find each kind of statement that is not so."""

import json

import pytest
from benchmarks.envelopes import judging, oracle, outline, outputs, places, truth, untrue
from benchmarks.envelopes.oracle import Question

DATA = {
    "total": 3,
    "users": [
        {"id": 1, "name": "Ann", "tags": ["a", "b"], "at": {"x-y": {"n": 1.5}}},
        {"id": 2, "name": "Bo", "tags": [], "at": {"x-y": {"n": 2}, "z": {"n": 3}}, "mail": None},
        {"id": 3, "name": "Cy", "tags": ["c"], "at": {}, "mail": "a long address" * 9},
    ],
    "page": {"next": None, "owner": {"id": 9, "name": "Di"}},
}
OUTLINE = "{total:int,users:[3 of {id:int,name,tags:[str],at:{*:{n:num}},mail?:str|null}],page:{next:null,owner:{2 keys}}}; unmarked: str"
PREVIEW = {
    "total": 3,
    "users": ["... (1 more) ...", DATA["users"][1], {**DATA["users"][2], "mail": "a long… (120 more characters)"}],
    "page": {"owner": {"id": 9, "...": "1 more key"}, "...": "1 more key"},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "users": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "mail": {"type": ["null", "string"]}},
                "required": ["id"],
            },
        }
    },
    "required": ["users"],
}


def envelope(**changed: object) -> str:
    return json.dumps({"variables": {}, "schema": OUTLINE, "preview": PREVIEW} | changed, ensure_ascii=False)


def test_the_outline_is_read() -> None:
    said = outline.read(
        '{n:int,rows:[1,234 of User={id:int,(a,"b c"?):str|null,p?:User,m:{*(5):[num]},2 more keys}]|null,o:{3 keys},e:[],q}; unmarked: bool'
    )
    assert said.shape is not None
    rows = said.shape.members["rows"]
    assert (rows.types, rows.length) == ({"array", "null"}, 1234)
    assert rows.items is not None and rows.items.shape is not None
    user = rows.items.shape
    assert {name: (node.types, node.is_optional) for name, node in user.members.items()} == {
        "id": ({"integer"}, False),
        "a": ({"string", "null"}, False),
        "b c": ({"string", "null"}, True),
        "p": ({"object"}, True),
        "m": ({"object"}, False),
    }
    assert user.members["p"].shape is user and user.more == 2
    map_ = user.members["m"].shape
    assert map_ is not None and map_.count == 5 and map_.each is not None and map_.each.types == {"array"}
    assert said.shape.members["o"].shape is not None and said.shape.members["o"].shape.more == 3
    assert said.shape.members["q"].types == {"boolean"}


@pytest.mark.parametrize("text", ["{a:int", "{a:int}b", "{a}", "{a:}", "{:int}", "[3 of int"])
def test_what_is_no_outline_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"character|unmarked|stands without|missing"):
        outline.read(text)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("users[].at.*.n", ("users", "[]", "at", "*", "n")),
        ('$[]."Release Date"', ("[]", "Release Date")),
        ("[][].x", ("[]", "[]", "x")),
        ("$", ()),
    ],
)
def test_paths(path: str, steps: tuple[str, ...]) -> None:
    assert places.parsed(path) == steps


NEEDS = (
    "total",
    "users[].id",
    "users[].mail",
    "users[].at.*.n",
    'users[].at."x-y".n',
    "page.owner.name",
    "users[].nothing",
)
TEXT = json.dumps(DATA)


@pytest.mark.parametrize(
    ("given", "placed", "exemplified"),
    [
        (envelope(preview={}), NEEDS[:4], ()),
        (envelope(schema={}), NEEDS[:5], NEEDS[:5]),
        (envelope(schema=SCHEMA, preview={"...": "3 keys"}), NEEDS[1:3], ()),
        (envelope(schema="{3 keys}", preview={}, values={"users[].id": [1, 3]}), NEEDS[1:2], NEEDS[1:2]),
        (f"Stored.\n{TEXT[:45]}\n[... cut]", NEEDS[:2], NEEDS[:2]),
        (f"Stored.\n{json.dumps(DATA, indent=2)[:170]}", (*NEEDS[:2], *NEEDS[3:5]), (*NEEDS[:2], *NEEDS[3:5])),
        ("Stored.", (), ()),
    ],
)
def test_a_field_is_shown_only_at_its_place(given: str, placed: tuple[str, ...], exemplified: tuple[str, ...]) -> None:
    found = oracle.shown(places.read(given, TEXT), Question("", "How many?", NEEDS))
    assert (found.placed, found.exemplified) == (set(placed), set(exemplified))


def test_a_name_leads_through_a_map_only_if_the_question_says_it() -> None:
    known = places.read(envelope(preview={}), TEXT)
    need = ('users[].at."x-y".n',)
    assert not oracle.shown(known, Question("", "How large is n?", need)).placed
    assert oracle.shown(known, Question("", "How large is n of x-y?", need)).placed


@pytest.mark.parametrize(
    ("need", "text"), [("[].b", "a,b\n1000000,2000000\n"), ("line", "first of the lines\nsecond of the lines\n")]
)
def test_of_text_a_header_or_a_line_is_shown(need: str, text: str) -> None:
    question = Question("", "", (need,))
    assert oracle.shown(places.read(f"Kept.\n{text}", text), question).exemplified == {need}
    assert not oracle.shown(places.read("Kept.", text), question).placed


def test_what_is_so_is_not_called_untrue() -> None:
    assert untrue.untruths(envelope(), DATA) == []
    assert untrue.untruths(envelope(schema=SCHEMA, values={"users[].id": [1, 3]}), DATA) == []
    tables = {
        "at": "array(3) of object(3 keys), at users[].at.*, with users_id and at_key",
        "users": "array(3) of object",
    }
    assert untrue.untruths(envelope(variables=tables), DATA) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total:int", "total:str"),
        ("mail?:str|null", "mail?:str"),
        ("name,", "name?,"),
        ("mail?:", "mail:"),
        ("id:int", "id:int,no:int"),
        ("id:int,", ""),
        ("3 of", "4 of"),
        ("{*:", "{*(3):"),
        ("{2 keys}", "{3 keys}"),
        ("n:num", "n:int"),
        (",tags:[str]", ",2 more keys"),
    ],
)
def test_each_false_statement_of_an_outline_is_found(old: str, new: str) -> None:
    assert old in OUTLINE
    assert len(untrue.untruths(envelope(schema=OUTLINE.replace(old, new)), DATA)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"preview": PREVIEW | {"total": 4}},
        {"preview": PREVIEW | {"total": "3"}},
        {"preview": PREVIEW | {"all": 4}},
        {"preview": {"total": 3, "...": "3 more keys"}},
        {"preview": {"total": 3}},
        {"preview": PREVIEW | {"users": ["... (2 more) ...", DATA["users"][1], DATA["users"][0]]}},
        {"preview": PREVIEW | {"users": [{**DATA["users"][0], "id": 2}, "... (2 more) ..."]}},
        {
            "preview": PREVIEW
            | {"users": [{**DATA["users"][2], "mail": "a long… (121 more characters)"}, "... (2 more) ..."]}
        },
        {"preview": PREVIEW | {"users": DATA["users"][:2]}},
        {
            "schema": SCHEMA
            | {"required": ["users", "all"], "properties": SCHEMA["properties"] | {"all": {"type": "object"}}}
        },
        {"schema": {"type": "array"}},
        {"variables": {"users": "array(4) of object"}},
        {"variables": {"page": "object(3 keys)"}},
        {"variables": {"at": "array(2) of object(3 keys), at users[].at.*, with users_id and at_key"}},
        {"variables": {"at": "array(3) of object(3 keys), at users[].at.*, with at_key"}},
        {"variables": {"ids": "array(3) of object(2 keys), at page[]"}},
        {"values": {"users[].id": [0, 3]}},
        {"omitted": {"items": {"users": {"kept": 2, "omitted": 2}}}},
    ],
)
def test_each_false_statement_beside_the_outline_is_found(changed: dict[str, object]) -> None:
    assert len(untrue.untruths(envelope(**changed), DATA)) == 1


ROWS = {
    "agents": {"ie": {"v": 1}, "edge": {"v": 2}},
    "rows": [
        {
            "n": n,
            "state": ("open", "paid", "", None)[n % 4],
            "at": f"2024-01-{n + 1:02}T10:00:00Z",
            "ts": 1_700_000_000 + n * 86_400,
            "price": f"${n + 1}.50",
            "code": f"{n:05}",
            "agent": ("ie", "edge")[n % 2],
            "tags": ["a"] * (n % 3),
            "mixed": (n, f"x{n}", None)[n % 3],
            "is_new": n < 3,
            "level": f"{'yna'[n % 3]} #{n}",
            "one": "EUR",
            "by": dict.fromkeys(("ie", "edge"), n),
            "a b": n / 8,
        }
        for n in range(12)
    ],
}
TRUE = {
    "n": [0, 11],
    "state": "open 3, paid 3, '' 3, null 3",
    "at": "times 2024-01-01 to 2024-01-12, unique",
    "ts": "epoch s, 2023-11-14 to 2023-11-25",
    "price": "text of numbers, $1.50 to $12.50",
    "code": "text of 5 digits, unique",
    "agent": "ie 6, edge 6, in keys of agents",
    "tags": "0 to 2 items, empty 4",
    "tags[]": "always a",
    "mixed": "num 4, str 4, null 4",
    "is_new": "false 9, true 3",
    "level": "first words: y 4, n 4, a 4",
    "one": "always EUR",
    "keys of by": "= keys of agents",
    "a b": "0.0 to ~1.375",
}


def test_true_statements_about_values_are_found_true() -> None:
    assert untrue.untruths(json.dumps({"values": {"rows[]": TRUE, "keys of agents": "ie, edge"}}), ROWS) == []
    samples = {
        "rows[], of a sample of 5": {"state": "open 2, paid 1", "n": [2, 9]},
        "rows[].one": "EUR 5, of a sample of 5",
    }
    assert untrue.untruths(json.dumps({"values": samples}), ROWS) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("n", [0, 12]),
        ("state", "open 4, paid 3"),
        ("state", "open 3, null 2"),
        ("state", "open 3, draft 1"),
        ("at", "times 2024-01-01 to 2024-01-13"),
        ("ts", "epoch ms, 2023-11-14 to 2023-11-25"),
        ("price", "text of numbers, $1.50 to $9.50"),
        ("code", "text of 6 digits"),
        ("agent", "unique"),
        ("agent", "in rows[].state"),
        ("tags", "1 to 2 items"),
        ("tags", "empty 5"),
        ("mixed", "num 5"),
        ("is_new", "always false"),
        ("level", "first words: y 4, n 8"),
        ("one", "always USD"),
        ("keys of by", "ie, opera"),
        ("a b", "0.0 to ~1.3"),
        ("nothing", "always a"),
        ("one", "something else"),
    ],
)
def test_each_false_statement_about_values_is_found(name: str, said: object) -> None:
    assert len(untrue.untruths(json.dumps({"values": {"rows[]": {name: said}}}), ROWS)) == 1


def test_values_that_are_stated_are_examples_where_they_stand() -> None:
    known = places.read(
        json.dumps({"schema": "", "values": {"rows[]": {"n": [0, 11], "mixed": "null 4", "a b": "~1 to ~2"}}}), "{"
    )
    question = Question("", "", ("rows[].n", "rows[].mixed", 'rows[]."a b"', "rows[].code"))
    found = oracle.shown(known, question)
    assert found.missing == ("rows[].code",)
    assert found.bare == ("rows[].mixed",)


def test_a_program_names_only_keys_that_its_writer_could_see() -> None:
    program = "sum(row['id'] for row in users if 'mail' in row and row.get('secret') and row['at']['said'])"
    assert judging.unseen_keys(program, envelope(), "Who is said to …?") == ["secret"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [([1, 0.1 + 0.2], [1.0, 0.3], True), ({"a": 1}, {"a": 1, "b": 2}, False), (True, 1, False), ("1", 1, False)],
)
def test_answers_are_compared(one: object, other: object, same: bool) -> None:
    assert judging.is_equal(one, other) is same


def test_each_question_has_an_answer_and_leads_to_its_data() -> None:
    """Of the outputs for which nothing is fetched."""
    asked = oracle.questions()
    assert sorted(asked) == sorted(outputs.NAMES) and sum(map(len, asked.values())) == 200
    for output in outputs.each(fetch=False, only=outputs.SHORT):
        assert isinstance(output, outputs.Output)
        assert len(truth.answers(output.name, output.source)) == len(asked[output.name])
        if not isinstance(output.source, str):
            needs = {need for question in asked[output.name] for need in question.needs}
            assert not [need for need in needs if not untrue.at(output.source, places.parsed(need))]
