"""Outputs that no package publishes, made alike at each run: what GitHub, Kubernetes, Stripe, Loki, a search and a web server return.

GitHub's pulls and issues are the examples of its own OpenAPI document, key by key, with other values; the results of the search
are that document's operations. The others have the keys that the public references of these interfaces name.
"""

from __future__ import annotations

import copy
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

LOGINS = ("amira", "bo-chen", "carlos", "dependabot[bot]", "erik", "fatou", "grace", "hiro", "ines", "jonas")
LABELS = ("bug", "documentation", "enhancement", "good first issue", "performance", "security", "wontfix")
VERBS = ("Fix", "Add", "Remove", "Document", "Speed up", "Rename")
THINGS = ("retries of webhooks", "the token cache", "CSV export", "pagination", "login on Safari", "flaky tests")
START = datetime(2026, 3, 1, tzinfo=UTC)


def pulls(openapi: dict[str, Any]) -> object:
    """The pull requests of eight repositories, as one tool asks GitHub for each."""
    random_ = random.Random(11)
    example = openapi["components"]["examples"]["pull-request-simple-items"]["value"][0]
    repos: dict[str, object] = {}
    for name in ("api", "web", "docs", "worker", "cli", "sdk-python", "sdk-node", "infra"):
        listed = [_pull(random_, example, f"octo/{name}", number) for number in range(1, random_.randint(12, 40))]
        repos[f"octo/{name}"] = {"status": 200, "data": {"pulls": listed[::-1], "page": 1}}
    return {"org": "octo", "fetched_at": _stamp(START + timedelta(days=200)), "repos": repos}


def _pull(random_: random.Random, example: dict[str, Any], repo: str, number: int) -> dict[str, Any]:
    pull = _at(copy.deepcopy(example), "octocat/Hello-World", repo)
    opened = START + timedelta(minutes=random_.randint(0, 200_000))
    closed = opened + timedelta(minutes=random_.randint(5, 30_000))
    state = random_.choice(("open", "closed", "closed"))
    is_merged = state == "closed" and random_.random() < 0.8
    pull |= {
        "id": random_.randint(10**8, 10**9),
        "number": number,
        "state": state,
        "locked": random_.random() < 0.05,
        "title": f"{random_.choice(VERBS)} {random_.choice(THINGS)}",
        "user": _user(random_, example["user"]),
        "body": random_.choice((None, "Closes an issue.", "See the discussion. " * random_.randint(1, 9))),
        "labels": _labels(random_, example["labels"][0]),
        "milestone": pull["milestone"] | {"title": f"v{random_.randint(1, 4)}.0"} if random_.random() < 0.4 else None,
        "active_lock_reason": None,
        "created_at": _stamp(opened),
        "updated_at": _stamp(closed),
        "closed_at": _stamp(closed) if state == "closed" else None,
        "merged_at": _stamp(closed) if is_merged else None,
        "assignee": None,
        "assignees": [_user(random_, example["user"]) for _ in range(random_.choice((0, 0, 1, 2)))],
        "requested_reviewers": [_user(random_, example["user"]) for _ in range(random_.choice((0, 1, 1, 3)))],
        "requested_teams": pull["requested_teams"] if random_.random() < 0.3 else [],
        "author_association": random_.choice(("MEMBER", "MEMBER", "CONTRIBUTOR", "NONE")),
        "draft": random_.random() < 0.15,
    }
    pull["head"]["ref"] = f"{pull['user']['login']}/change-{number}"
    pull["base"]["ref"] = random_.choice(("main", "main", "main", "release/2.x"))
    for side in ("head", "base"):
        pull[side]["repo"]["language"] = {"octo/api": "Go", "octo/web": "TypeScript"}.get(repo, "Python")
        pull[side]["repo"]["stargazers_count"] = len(repo) * 97
    return pull


def issues(openapi: dict[str, Any]) -> object:
    """A page of GitHub's search for issues."""
    random_ = random.Random(12)
    found = openapi["components"]["examples"]["issue-search-result-item-paginated"]["value"]["items"][0]
    items = []
    for number in range(400):
        opened = START + timedelta(minutes=random_.randint(0, 250_000))
        repo = random_.choice(("octo/api", "octo/web", "octo/docs", "octo/worker"))
        state = random_.choice(("open", "closed"))
        item = _at(copy.deepcopy(found), "batterseapower/pinyin-toolkit", repo) | {
            "id": 5_000_000 + number * 7,
            "number": number + 1,
            "title": f"{random_.choice(THINGS).capitalize()} fails {random_.choice(('sometimes', 'on Windows', 'since 2.1'))}",
            "user": _user(random_, found["user"]),
            "labels": _labels(random_, found["labels"][0] if found["labels"] else {}),
            "state": state,
            "milestone": {"title": "v2.0", "number": 3} if random_.random() < 0.2 else None,
            "comments": random_.choice((0, 0, 1, 2, 3, 5, 8, 13, 40)),
            "created_at": _stamp(opened),
            "updated_at": _stamp(opened + timedelta(hours=random_.randint(1, 900))),
            "closed_at": _stamp(opened + timedelta(hours=random_.randint(1, 900))) if state == "closed" else None,
            "state_reason": random_.choice(("completed", "not_planned")) if state == "closed" else None,
            "score": round(random_.random() * 10, 4),
        }
        item["reactions"] = {"total_count": (ups := random_.randint(0, 30)) + 1, "+1": ups, "-1": 1}
        if random_.random() < 0.25:
            item["pull_request"] = {"url": f"{item['url']}/pull", "merged_at": None}
        else:
            item.pop("pull_request", None)
        items.append(item)
    return {"total_count": 1_873, "incomplete_results": False, "items": items}


def _user(random_: random.Random, example: dict[str, Any]) -> dict[str, Any]:
    login = random_.choice(LOGINS)
    user: dict[str, Any] = _at(copy.deepcopy(example), example["login"], login)
    return user | {"id": 1000 + LOGINS.index(login), "type": "Bot" if "[bot]" in login else "User"}


def _labels(random_: random.Random, example: dict[str, Any]) -> list[dict[str, Any]]:
    return [example | {"name": name} for name in random_.sample(LABELS, random_.choice((0, 1, 1, 2, 3)))]


def _at(value: Any, old: str, new: str) -> Any:
    """The same with one name for another in all strings."""
    return json.loads(json.dumps(value).replace(old, new))


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def pods() -> object:
    """What `kubectl get pods --all-namespaces --output json` prints."""
    random_ = random.Random(13)
    return {
        "apiVersion": "v1",
        "items": [_pod(random_, number) for number in range(260)],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }


def _pod(random_: random.Random, number: int) -> dict[str, Any]:
    app = random_.choice(("api", "web", "worker", "redis", "ingest", "coredns"))
    namespace = "kube-system" if app == "coredns" else random_.choice(("shop", "shop-staging", "data"))
    name = f"{app}-{random_.getrandbits(32):08x}-{number:03d}"
    started = _stamp(START + timedelta(minutes=random_.randint(0, 60_000)))
    phase = random_.choices(("Running", "Pending", "Failed", "Succeeded"), (80, 8, 6, 6))[0]
    node = f"node-{random_.randint(1, 9)}"
    images = [f"registry.example.com/{app}:{random_.choice(('1.4.2', '1.4.3', '1.5.0'))}"]
    if random_.random() < 0.4:
        images.append("envoyproxy/envoy:v1.31.0")
    containers = [
        {
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "name": image.split("/")[-1].split(":")[0],
            "resources": {
                "requests": {
                    "cpu": random_.choice(("100m", "250m", "1")),
                    "memory": random_.choice(("128Mi", "512Mi", "2Gi")),
                }
            },
            "env": [
                {"name": "LOG_LEVEL", "value": random_.choice(("info", "debug"))},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "ports": [{"containerPort": 8080 + place, "protocol": "TCP"}],
        }
        for place, image in enumerate(images)
    ]
    if random_.random() < 0.7:
        containers[0]["resources"]["limits"] = {"memory": "4Gi"}
    running: dict[str, Any] = {"running": {"startedAt": started}}
    waiting: dict[str, Any] = {
        "waiting": {"reason": random_.choice(("CrashLoopBackOff", "ImagePullBackOff")), "message": "back-off"}
    }
    statuses = [
        {
            "name": container["name"],
            "image": container["image"],
            "ready": phase == "Running" and random_.random() < 0.95,
            "restartCount": random_.choice((0, 0, 0, 1, 4, 17)),
            "state": waiting if phase == "Pending" else running,
        }
        for container in containers
    ]
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": started,
        "qosClass": random_.choice(("Burstable", "Guaranteed", "BestEffort")),
        "conditions": [
            {
                "type": kind,
                "status": "True" if phase == "Running" else random_.choice(("True", "False")),
                "lastTransitionTime": started,
            }
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
    }
    if phase != "Pending" or random_.random() < 0.5:
        status |= {
            "hostIP": f"10.0.0.{node[-1]}",
            "podIP": f"10.1.{node[-1]}.{number % 250}",
            "containerStatuses": statuses,
        }
    if phase == "Failed":
        status["reason"] = "Evicted"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{random_.getrandbits(128):032x}",
            "creationTimestamp": started,
            "labels": {"app.kubernetes.io/name": app, "pod-template-hash": f"{random_.getrandbits(32):08x}"}
            | ({"team": random_.choice(("core", "growth"))} if random_.random() < 0.6 else {}),
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"}
            if random_.random() < 0.5
            else {},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": random_.choice(("ReplicaSet", "StatefulSet")),
                    "name": app,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Always",
            "serviceAccountName": app,
            "containers": containers,
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            ],
        },
        "status": status,
    }


def invoices() -> object:
    """A page of Stripe's invoices, amounts in cents, times in seconds."""
    random_ = random.Random(14)
    return {
        "object": "list",
        "url": "/v1/invoices",
        "has_more": True,
        "data": [_invoice(random_, number) for number in range(300)],
    }


def _invoice(random_: random.Random, number: int) -> dict[str, Any]:
    created = int(START.timestamp()) + random_.randint(0, 15_000_000)
    customer = random_.randint(1, 60)
    currency = random_.choices(("eur", "usd", "gbp"), (5, 4, 1))[0]
    status = random_.choices(("paid", "open", "draft", "void", "uncollectible"), (70, 14, 6, 6, 4))[0]
    lines = []
    for place in range(random_.choice((1, 1, 2, 3))):
        quantity, price = random_.randint(1, 12), random_.choice((900, 2_900, 9_900, 49_900))
        lines.append(
            {
                "id": f"il_{number:04d}{place}",
                "object": "line_item",
                "amount": quantity * price,
                "currency": currency,
                "description": f"{quantity} × {random_.choice(('Starter', 'Team', 'Business', 'Support'))}",
                "discountable": True,
                "metadata": {},
                "period": {"start": created, "end": created + 2_592_000},
                "price": {
                    "id": f"price_{price}",
                    "object": "price",
                    "product": f"prod_{random_.choice('ABCD')}",
                    "unit_amount": price,
                    "recurring": {"interval": random_.choice(("month", "year")), "interval_count": 1},
                },
                "proration": random_.random() < 0.1,
                "quantity": quantity,
            }
        )
    subtotal = sum(line["amount"] for line in lines)
    tax = round(subtotal * 0.19) if currency == "eur" else None
    total = subtotal + (tax or 0)
    return {
        "id": f"in_{number:06d}",
        "object": "invoice",
        "account_country": "DE",
        "amount_due": total,
        "amount_paid": total if status == "paid" else 0,
        "amount_remaining": 0 if status == "paid" else total,
        "attempt_count": random_.randint(0, 4),
        "billing_reason": random_.choice(("subscription_cycle", "subscription_cycle", "subscription_create", "manual")),
        "collection_method": random_.choice(("charge_automatically", "send_invoice")),
        "created": created,
        "currency": currency,
        "customer": f"cus_{customer:04d}",
        "customer_address": {
            "city": None,
            "country": random_.choice(("DE", "FR", "US", "GB")),
            "postal_code": f"{random_.randint(10_000, 99_999)}",
        },
        "customer_email": f"billing{customer}@example.com",
        "customer_name": f"Customer {customer}",
        "discount": {"coupon": {"id": "WELCOME20", "percent_off": 20.0}} if random_.random() < 0.1 else None,
        "due_date": created + 1_209_600 if random_.random() < 0.5 else None,
        "lines": {"object": "list", "data": lines, "has_more": False, "total_count": len(lines)},
        "metadata": {"order": f"O-{random_.randint(1000, 9999)}"} if random_.random() < 0.3 else {},
        "number": f"BR-{number:05d}" if status != "draft" else None,
        "paid": status == "paid",
        "status": status,
        "status_transitions": {
            "finalized_at": created + 3600 if status != "draft" else None,
            "paid_at": created + random_.randint(4_000, 900_000) if status == "paid" else None,
            "voided_at": None,
        },
        "subscription": f"sub_{customer:04d}" if random_.random() < 0.8 else None,
        "subtotal": subtotal,
        "tax": tax,
        "total": total,
    }


def streams() -> object:
    """What Loki answers to a query of a range: lines of logs by their stream, each with its time in nanoseconds."""
    random_ = random.Random(15)
    result = []
    for app in ("checkout", "catalog", "mailer", "auth"):
        for pod in range(3):
            at = int(START.timestamp() * 1e9)
            values = []
            for _ in range(random_.randint(80, 320)):
                at += random_.randint(10**6, 9 * 10**9)
                level = random_.choices(("info", "warn", "error"), (85, 10, 5))[0]
                status = {"info": 200, "warn": 429, "error": random_.choice((500, 502))}[level]
                values.append(
                    [
                        str(at),
                        f"level={level} method={random_.choice(('GET', 'POST'))} path=/{app}/{random_.choice(('list', 'item', 'health'))} status={status} duration={random_.randint(1, 2500)}ms",
                    ]
                )
            result.append(
                {
                    "stream": {
                        "app": app,
                        "pod": f"{app}-{pod}",
                        "namespace": "shop",
                        "cluster": random_.choice(("eu", "us")),
                    },
                    "values": values,
                }
            )
    stats = {
        "summary": {
            "bytesProcessedPerSecond": 3_507_022,
            "execTime": 0.0212,
            "totalEntriesReturned": sum(len(stream["values"]) for stream in result),
        }
    }
    return {"status": "success", "data": {"resultType": "streams", "result": result, "stats": stats}}


def access() -> str:
    """The lines of a web server's log, in the combined format."""
    random_ = random.Random(16)
    at = START
    lines = []
    for _ in range(4000):
        at += timedelta(seconds=random_.randint(0, 40))
        page = random_.choice(("/", "/cart", "/login", "/api/items", "/api/items/7", "/static/app.js"))
        status = random_.choices((200, 304, 302, 404, 500), (75, 10, 6, 7, 2))[0]
        agent = random_.choice(("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.9.1", "Googlebot/2.1"))
        lines.append(
            f'10.2.{random_.randint(0, 3)}.{random_.randint(1, 40)} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "{random_.choice(("GET", "GET", "POST"))} {page} HTTP/1.1" {status} {random_.randint(120, 90_000)} "-" "{agent}"'
        )
    return "\n".join(lines) + "\n"


def search(openapi: dict[str, Any]) -> object:
    """A search of GitHub's documentation: its operations, ranked, with facets."""
    random_ = random.Random(17)
    results: list[dict[str, Any]] = []
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            about = operation.get("description", "")
            if "repos" not in path or len(about) < 80:
                continue
            result = {
                "rank": len(results) + 1,
                "score": round(40 / (1 + len(results) / 20) + random_.random(), 3),
                "title": operation["summary"],
                "url": operation["externalDocs"]["url"],
                "snippet": about[:240],
                "source": {"site": "docs.github.com", "section": operation["x-github"]["category"], "language": "en"},
                "published": f"{_stamp(START + timedelta(hours=random_.randint(0, 4000)))[:10]}",
                "tags": sorted({method, *operation["tags"]}),
                "highlights": {
                    "title": [operation["summary"].split()[0]],
                    "body": about.split()[:3],
                },
            }
            if random_.random() < 0.3:
                result["thumbnail"] = {"width": 120, "height": 80}
            results.append(result)
    facets: dict[str, int] = {}
    for result in results:
        facets[result["source"]["section"]] = facets.get(result["source"]["section"], 0) + 1
    return {
        "query": "repository",
        "took_ms": 37,
        "total": {"value": 10_000, "relation": "gte"},
        "results": results,
        "facets": {"section": [{"value": name, "count": count} for name, count in facets.items()]},
    }
