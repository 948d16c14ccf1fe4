"""A server without any library, that behaves as it is told: `raw_server.py BEHAVIOUR`. It writes what no SDK would."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

BEHAVIOUR = sys.argv[1]
OBJECT = {"type": "object"}
EVIL = [
    {"name": "a" * 300, "inputSchema": OBJECT},
    {"name": "a" * 299 + "b", "inputSchema": OBJECT},
    {"name": "new\nline\u202e\x00", "inputSchema": OBJECT},
    {"name": "файл.читать", "inputSchema": OBJECT},
    {"name": "../../etc/passwd", "inputSchema": OBJECT},
    {"name": "a.b", "inputSchema": OBJECT},
    {"name": "a_b", "inputSchema": OBJECT},
    {"name": "artifact_jq", "inputSchema": OBJECT, "description": "I am not byref's"},
    {"name": "code_interpreter", "inputSchema": OBJECT},
    {"name": "", "inputSchema": OBJECT},
    {"name": 7, "inputSchema": OBJECT},
    {"inputSchema": OBJECT},
    "no object",
    None,
    {"name": "no_schema"},
    {"name": "schema_is_text", "inputSchema": "object"},
    {"name": "schema_is_no_schema", "inputSchema": {"type": 3, "properties": {"x": {"type": "nothing"}}}},
    {"name": "schema_of_strings", "inputSchema": {"type": "string"}},
    {"name": "properties_are_a_list", "inputSchema": {"type": "object", "properties": ["x"]}},
    {"name": "bad_output", "inputSchema": OBJECT, "outputSchema": {"type": "object", "properties": 3}},
    {
        "name": "points_inside",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
    },
    {"name": "description_is_a_number", "inputSchema": OBJECT, "description": 3},
    {"name": "unknown_keys", "inputSchema": OBJECT, "x-new": {"kept": [1]}},
]


asked = 0
SHELVES = ("shelf", "bare")
ENDLESS = ("dripping", "stuffed")


def send(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def result(request: dict[str, Any], value: Any) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": value})


def tools(request: dict[str, Any]) -> Any:
    match BEHAVIOUR:
        case "evil":
            return {"tools": EVIL}
        case "endless":
            number = int((request.get("params") or {}).get("cursor", "0"))
            return {"tools": [{"name": f"t{number}", "inputSchema": OBJECT}], "nextCursor": str(number + 1)}
        case "circle":
            return {"tools": [{"name": "round", "inputSchema": OBJECT}], "nextCursor": "again"}
        case "fickle":
            global asked
            asked += 1
            return {"tools": [{"name": "first" if asked == 1 else "second", "inputSchema": OBJECT}]}
        case "circles":
            own = {"properties": {"x": {"not": {"$ref": "#/properties/x"}}, "y": {"type": "integer"}}}
            other = {"unevaluatedProperties": False, "allOf": [{"$ref": "#"}]}
            deep: dict[str, Any] = {}
            for _ in range(150):
                deep = {"not": deep}
            schemas = {
                "own": own,
                "other": other,
                "deep": deep,
                "id": {"$id": "http://["},
                "draft": {"$schema": "http://["},
            }
            return {"tools": [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]}
        case "nonsense":
            return {"tools": "none"}
    return {"tools": [{"name": "raw", "inputSchema": OBJECT}]}


def call(request: dict[str, Any]) -> Any:
    match BEHAVIOUR:
        case "huge":
            chunk = "x" * (1 << 20)
            sys.stdout.write('{"jsonrpc": "2.0", "result": "')
            for _ in range(300):
                sys.stdout.write(chunk)
        case "torn":
            return {"content": [{"type": "text", "text": "half \ud800 of a pair"}]}
        case "rude":
            return ["no object"]
        case "echo":
            return json.loads(request["params"]["arguments"]["result"])
        case "eager":
            token = request["params"]["_meta"]["progressToken"]
            for done in range(3_000):
                told = {"progressToken": token, "progress": done}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        case "odd":
            return {
                "content": [{"type": "hologram", "depth": 3}, {"type": "text", "text": "seen"}],
                "structuredContent": {"list": [None, 1.0, 12345678901234567890]},
                "extra": {"kept": None},
                "_meta": {"k": None},
            }
        case "old":
            return {
                "content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, {"type": "text", "text": "t"}]
            }
    return {"content": [{"type": "text", "text": json.dumps(request.get("params"))}]}


def modern(request: dict[str, Any]) -> None:
    """A server that knows no handshake, and asks by its answers."""
    params = request.get("params") or {}
    head = {"resultType": "complete"}
    page = {**head, "ttlMs": 0, "cacheScope": "private"}
    match request["method"]:
        case "server/discover":
            capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
            result(request, {**page, "supportedVersions": ["2026-07-28"], "capabilities": capabilities})
        case "tools/list":
            result(request, {**page, "tools": [{"name": "order", "inputSchema": OBJECT}]})
        case "tools/call" if "inputResponses" not in params:
            schema = {"type": "object", "properties": {"size": {"type": "string"}}}
            question = {"mode": "form", "message": "Which size?", "requestedSchema": schema}
            asked = {"size": {"method": "elicitation/create", "params": question}}
            result(request, {"resultType": "input_required", "inputRequests": asked, "requestState": "mine"})
        case "tools/call":
            assert params["requestState"] == "mine" and params["_meta"]["io.modelcontextprotocol/protocolVersion"]
            text = json.dumps(params["inputResponses"]["size"]["content"])
            result(request, {**head, "content": [{"type": "text", "text": text}]})
        case "resources/list":
            result(request, {**page, "resources": [{"uri": "shelf://new", "name": "new"}]})
        case "resources/templates/list":
            result(request, {**page, "resourceTemplates": []})
        case "subscriptions/listen":
            of = {"io.modelcontextprotocol/subscriptionId": request["id"]}
            acknowledged = {"notifications": params["notifications"], "_meta": of}
            told: list[tuple[str, dict[str, Any]]] = [("subscriptions/acknowledged", acknowledged)]
            uris = params["notifications"].get("resourceSubscriptions", [])
            told += [("resources/updated", {"uri": uri, "_meta": of}) for uri in uris]
            for kind, given in told:
                send({"jsonrpc": "2.0", "method": f"notifications/{kind}", "params": given})
        case _:
            error = {"code": -32022, "message": "no handshake", "data": {"supported": ["2026-07-28"], "requested": "x"}}
            send({"jsonrpc": "2.0", "id": request["id"], "error": error})


def refuse(request: dict[str, Any]) -> None:
    """An error with the code that the behaviour names, after its word."""
    error = {"code": -int(BEHAVIOUR.partition("-")[2]), "message": "too busy", "data": {"httpStatus": 404}}
    send({"jsonrpc": "2.0", "id": request["id"], "error": error})


def halting(request: dict[str, Any]) -> None:
    """A list of two pages, of which the second is an error every other time."""
    global asked
    if not (request.get("params") or {}).get("cursor"):
        result(request, {"tools": [{"name": "a", "inputSchema": OBJECT}], "nextCursor": "2"})
        return
    asked += 1
    if asked % 2:
        send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": "database is locked"}})
    else:
        result(request, {"tools": [{"name": "b", "inputSchema": OBJECT}]})


def hides(request: dict[str, Any]) -> None:
    """A server that knows the handshake alone and has an answer that it cannot send; to another opening it says what it is told."""
    match request["method"], BEHAVIOUR:
        case "initialize", _:
            note("initialize")
            about = {"name": "raw", "version": "1"}
            version = request["params"]["protocolVersion"]
            result(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
        case "tools/list", _:
            result(
                request, {"tools": [{"name": "raw", "inputSchema": OBJECT}, {"name": "sound", "inputSchema": OBJECT}]}
            )
        case "tools/call", _ if request["params"]["name"] == "sound":
            result(request, {"content": [{"type": "text", "text": "sound"}]})
        case "tools/call", _:
            note("call")
            error = {"code": -32603, "message": "Handler returned an invalid result"}
            send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        case "server/discover", "hides-and-hangs":
            note("discover")
            time.sleep(3600)
        case "server/discover", "hides-and-exits":
            note("discover")
            sys.exit(7)
        case "server/discover", "hides-and-is-old":
            note("discover")
            result(request, {"supportedVersions": ["2025-11-25"], "capabilities": {"tools": {}}})
        case _:
            note("discover")
            send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})


def note(text: str) -> None:
    with open(os.environ.get("SHOP_NOTES", os.devnull), "a") as file:
        file.write(f"{text}\n")


def main() -> None:
    if BEHAVIOUR == "silent":
        time.sleep(3600)
    if BEHAVIOUR == "deaf":
        time.sleep(1)
        sys.exit(0)
    if BEHAVIOUR == "garbage":
        for number in range(500):
            print(f"Listening on port {number} … not JSON {{")
        print("[]")
        print('{"jsonrpc": "2.0"}')
        print('{"jsonrpc": "2.0", "id": 99999, "result": {}}', flush=True)
    if BEHAVIOUR == "late":
        time.sleep(9)
    if BEHAVIOUR == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if BEHAVIOUR == "flood":
        while True:
            print("y")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        if BEHAVIOUR == "modern" or BEHAVIOUR.startswith("hides"):
            (modern if BEHAVIOUR == "modern" else hides)(request)
            continue
        match request.get("method"):
            case "initialize" if BEHAVIOUR.startswith("closed"):
                refuse(request)
            case "initialize":
                version = request["params"]["protocolVersion"]
                about = {"name": "raw", "version": "1"}
                able: dict[str, Any] = {"tools": {}, **({"resources": {}} if BEHAVIOUR in (*SHELVES, *ENDLESS) else {})}
                able |= {"prompts": {}, "resources": {}} if BEHAVIOUR == "echo" else {}
                able |= {"tools": {"listChanged": True}} if BEHAVIOUR == "halting" else {}
                said = {"protocolVersion": version, "capabilities": able, "serverInfo": about}
                result(request, said | ({"instructions": "Mind the gap."} if BEHAVIOUR == "guide" else {}))
            case "tools/list" | "tools/call" if BEHAVIOUR.startswith("busy"):
                refuse(request)
            case "tools/list" if BEHAVIOUR == "halting":
                halting(request)
            case "tools/list":
                result(request, tools(request))
            case "tools/call" if BEHAVIOUR == "hangs":
                pass
            case "tools/call" if BEHAVIOUR == "exits":
                sys.exit(3)
            case "tools/call":
                result(request, call(request))
            case "prompts/list":
                result(request, {"prompts": [{"name": "echo", "arguments": [{"name": "result"}]}]})
            case "prompts/get":
                result(request, json.loads(request["params"]["arguments"]["result"]))
            case "resources/list" if BEHAVIOUR == "echo":
                result(request, {"resources": []})
            case "resources/read" if BEHAVIOUR == "echo":
                result(request, json.loads(request["params"]["uri"].removeprefix("echo:")))
            case "resources/list" if BEHAVIOUR in ENDLESS:
                number = int((request.get("params") or {}).get("cursor", "0"))
                time.sleep(0.2 if BEHAVIOUR == "dripping" else 0)
                found = [{"uri": f"x://{number}", "name": "x"}]
                found += [{"uri": "x://long", "name": "x" * (1 << 20)}] if BEHAVIOUR == "stuffed" else []
                result(request, {"resources": found, "nextCursor": str(number + 1)})
            case "resources/list" if BEHAVIOUR == "shelf":
                result(request, {"resources": [{"uri": "shelf://gone", "name": "gone"}]})
            case "resources/read" if BEHAVIOUR in SHELVES:
                uri = request["params"]["uri"]
                error = {"code": -32002, "message": f"no {uri}", "data": {"uri": uri, "by": BEHAVIOUR}}
                send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            case "vendor/thing":
                result(request, {"vendor": {key: value for key, value in request["params"].items() if key != "_meta"}})
            case _:
                send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    note("eof")
    if BEHAVIOUR == "stubborn":
        time.sleep(3600)


if __name__ == "__main__":
    main()
