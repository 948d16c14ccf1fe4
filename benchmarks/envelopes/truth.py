"""The answers to the questions of `questions.toml`, in their order, computed from the whole data in plain Python.

This is written with the data open and shares nothing with the programs that are judged.
"""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit


def answers(name: str, source: Any) -> list[object]:
    """The answers to an output's questions."""
    return list(_BY_NAME[name](source))


def _most(values: Iterable[Any], count: int = 1) -> list[list[Any]]:
    """The most frequent values with their counts; of those that are as frequent, the smallest first."""
    return [list(pair) for pair in sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))[:count]]


def _counts(values: Iterable[Any]) -> dict[Any, int]:
    return dict(Counter(values))


def _greatest(counts: Iterable[tuple[Any, Any]], count: int = 1) -> list[list[Any]]:
    return [list(pair) for pair in sorted(counts, key=lambda pair: (-pair[1], pair[0]))[:count]]


def _at(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def _pulls(source: Any) -> Iterator[object]:
    by_repo = {name: repo["data"]["pulls"] for name, repo in source["repos"].items()}
    every = [pull for pulls in by_repo.values() for pull in pulls]
    yield len(every)
    yield {name: sum(pull["state"] == "open" for pull in pulls) for name, pulls in by_repo.items()}
    yield sorted(
        pull["number"] for pull in by_repo["octo/api"] if pull["merged_at"] and pull["user"]["login"] == "grace"
    )
    yield _most((pull["user"]["login"] for pull in every), 3)
    yield sum(pull["milestone"] is None for pull in every)
    yield sorted({label["name"] for pull in every for label in pull["labels"]})
    yield min(
        (_at(pull["closed_at"]) - _at(pull["created_at"])).total_seconds() / 60 for pull in every if pull["closed_at"]
    )
    yield _most(asked["login"] for pull in every for asked in pull["requested_reviewers"])[0]
    yield _counts(pull["base"]["ref"] for pull in every)
    yield sum(pull["draft"] and pull["state"] == "open" and pull["author_association"] == "NONE" for pull in every)


def _issues(source: Any) -> Iterator[object]:
    items = source["items"]
    yield source["total_count"] - len(items)
    yield _counts(item["state_reason"] for item in items if item["state"] == "closed")
    comments: Counter[str] = Counter()
    for item in items:
        comments["/".join(item["repository_url"].split("/")[-2:])] += item["comments"]
    yield dict(comments)
    yield sum({"bug", "security"} <= {label["name"] for label in item["labels"]} for item in items)
    yield sum("pull_request" in item for item in items)
    yield _most(item["created_at"][:7] for item in items)[0][0]
    spans = [_at(item["closed_at"]) - _at(item["created_at"]) for item in items if item["closed_at"]]
    yield round(sum(span.total_seconds() for span in spans) / len(spans) / 86400, 2)
    yield min(items, key=lambda item: (-item["reactions"]["+1"], item["number"]))["number"]
    yield _counts(item["milestone"]["title"] if item["milestone"] else "none" for item in items)
    yield sum(item["user"]["type"] == "Bot" for item in items)


def _search(source: Any) -> Iterator[object]:
    results = source["results"]
    yield [len(results), source["total"]["value"], source["total"]["relation"]]
    yield _most((result["source"]["section"] for result in results), 3)
    yield [result["title"] for result in sorted(results, key=lambda result: -result["score"])[:3]]
    yield max(source["facets"]["section"], key=lambda facet: facet["count"])["value"]
    yield [min(result["published"] for result in results), max(result["published"] for result in results)]
    yield [result["rank"] for result in results if "delete" in result["tags"]][:5]
    yield sum("thumbnail" not in result for result in results)
    yield _most(word for result in results for word in result["highlights"]["title"])[0]
    yield round(statistics.mean(result["score"] for result in results if result["source"]["section"] == "actions"), 3)
    yield sum("GitHub App" in result["snippet"] for result in results)


def _webhooks(source: Any) -> Iterator[object]:
    examples = [example for event in source for example in event["examples"]]
    yield len(examples)
    yield _greatest(((event["name"], len(event["examples"])) for event in source), 5)
    yield sum(not event["actions"] for event in source)
    yield len({example["sender"]["login"] for example in examples if example.get("sender")})
    yield _most((example["action"] for example in examples if "action" in example), 5)
    yield len({example["repository"]["full_name"] for example in examples if example.get("repository")})
    by_name = {event["name"]: event["examples"] for event in source}
    yield sum(bool(example["pull_request"].get("draft")) for example in by_name["pull_request"])
    yield sorted({label["name"] for example in by_name["issues"] for label in example["issue"].get("labels", [])})
    yield sum("installation" in example for example in examples)
    yield max(example["workflow_run"]["id"] for example in examples if example.get("workflow_run"))


def _openapi(source: Any) -> Iterator[object]:
    operations = [(method, operation) for path in source["paths"].values() for method, operation in path.items()]
    yield len(operations)
    yield _counts(method for method, _ in operations)
    yield _most((tag for _, operation in operations for tag in operation["tags"]), 5)
    yield sorted(operation["operationId"] for _, operation in operations if operation.get("deprecated"))[:5]
    yield sum(method == "post" and "requestBody" not in operation for method, operation in operations)
    schemas = source["components"]["schemas"]
    yield _greatest((name, len(schema.get("properties", {}))) for name, schema in schemas.items())[0]
    yield sum("404" in operation["responses"] for _, operation in operations)
    yield _most((operation["x-github"]["category"] for _, operation in operations), 3)
    yield sum(operation["x-github"].get("enabledForGitHubApps") is False for _, operation in operations)
    yield _counts(parameter["in"] for parameter in source["components"]["parameters"].values())


def _ec2(source: Any) -> Iterator[object]:
    shapes, operations = source["shapes"], source["operations"]
    members = {name: shape.get("members", {}) for name, shape in shapes.items()}
    yield _counts(shape["type"] for shape in shapes.values())
    yield len(operations)
    yield _greatest((name, len(of)) for name, of in members.items())[0]
    yield _greatest(((name, len(shape["enum"])) for name, shape in shapes.items() if "enum" in shape), 3)
    yield sum("output" not in operation for operation in operations.values())
    yield _greatest((name, len(members[operation["input"]["shape"]])) for name, operation in operations.items())[0]
    yield sum(bool(shape.get("sensitive")) for shape in shapes.values())
    yield max(shape["max"] for shape in shapes.values() if "max" in shape)
    yield sorted(shapes["RunInstancesRequest"]["required"])
    yield _most(member["shape"] for of in members.values() for member in of.values())[0]


def _caniuse(source: Any) -> Iterator[object]:
    features = source["data"]
    yield _counts(feature["status"] for feature in features.values())
    yield sum("CSS" in feature["categories"] for feature in features.values())
    yield [title for title, _ in _greatest(((one["title"], one["usage_perc_y"]) for one in features.values()), 3)]
    yield sorted(agent["browser"] for agent in source["agents"].values() if agent["type"] == "mobile")
    yield sum(feature["stats"]["safari"].get("17.0", "").startswith("y") for feature in features.values())
    yield sum(len(feature["links"]) for feature in features.values())
    yield _most(feature["parent"] for feature in features.values() if feature["parent"])[0]
    usage = {
        (name, version): share
        for name, agent in source["agents"].items()
        for version, share in agent["usage_global"].items()
    }
    yield list(max(usage, key=lambda key: usage[key]))
    yield source["statuses"][features["flexbox"]["status"]]
    yield sum(feature["keywords"] == "" for feature in features.values())


def _packages(source: Any) -> Iterator[object]:
    every = source["packages"]
    others = {path: package for path, package in every.items() if path}
    yield len(others)
    yield _most((package["license"] for package in others.values() if "license" in package), 5)
    yield sum(package.get("dev") is True for package in every.values())
    engines = [package["engines"] for package in every.values() if isinstance(package.get("engines"), dict)]
    yield _most(of["node"] for of in engines if "node" in of)[0]
    yield _greatest((path, len(package.get("dependencies", {}))) for path, package in others.items())[0]
    yield sum("integrity" not in package for package in others.values())
    yield sorted(path for path, package in every.items() if package.get("hasInstallScript"))
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for path, package in others.items():
        if "node_modules/" in path:
            versions[path.rpartition("node_modules/")[2]].add(package["version"])
    yield _greatest((name, len(found)) for name, found in versions.items())[0]
    yield sum("tslib" in package.get("dependencies", {}) for package in every.values())
    yield _most(peer for package in every.values() for peer in package.get("peerDependencies", {}))[0]


def _compat(source: Any) -> Iterator[object]:
    browsers = source["browsers"]
    yield sorted(browser["name"] for browser in browsers.values())
    yield {key: len(browser["releases"]) for key, browser in browsers.items()}
    yield next(
        version for version, release in browsers["firefox"]["releases"].items() if release["status"] == "current"
    )
    yield browsers["chrome"]["releases"]["100"]["release_date"]
    own = [interface["__compat"] for interface in source["api"].values() if "__compat" in interface]
    yield sum(compat["status"]["deprecated"] for compat in own if "status" in compat)
    yield _counts(browser["type"] for browser in browsers.values())
    own = [one["__compat"] for one in source["css"]["properties"].values() if "__compat" in one]
    yield sum(compat["status"]["experimental"] for compat in own if "status" in compat)
    yield source["api"]["AbortController"]["__compat"]["support"]["ie"]["version_added"]
    yield sum("mdn_url" not in header.get("__compat", {}) for header in source["http"]["headers"].values())
    yield sorted({release["engine"] for release in browsers["opera"]["releases"].values() if "engine" in release})


def _countries(source: Any) -> Iterator[object]:
    name = {country["cca3"]: country["name"]["common"] for country in source}
    yield _counts(country["region"] for country in source)
    yield [country["name"]["common"] for country in sorted(source, key=lambda country: -country["area"])[:5]]
    yield _greatest((country["name"]["common"], len(country["borders"])) for country in source)[0]
    yield sum(country["landlocked"] and country["region"] == "Africa" for country in source)
    yield sum("EUR" in country["currencies"] for country in source)
    yield _most(language for country in source for language in country["languages"].values())[0]
    germany = next(country for country in source if country["cca3"] == "DEU")
    yield sorted(name[code] for code in germany["borders"])
    yield germany["translations"]["fra"]["common"]
    yield min(source, key=lambda country: country["latlng"][0])["name"]["common"]
    yield sum(bool(country["independent"]) and not country["unMember"] for country in source)


def _earthquakes(source: Any) -> Iterator[object]:
    features = source["features"]
    every = [feature["properties"] for feature in features]
    yield sum(one["mag"] is not None and one["mag"] >= 5 for one in every)
    strongest = max(every, key=lambda one: one["mag"] if one["mag"] is not None else -9)
    yield [strongest["place"], strongest["mag"]]
    yield round(statistics.mean(feature["geometry"]["coordinates"][2] for feature in features), 2)
    yield _counts(one["magType"] for one in every)
    yield sum(one["felt"] is None for one in every)
    yield _most(f"{datetime.fromtimestamp(one['time'] / 1000, UTC):%Y-%m-%d}" for one in every)[0]
    by_net: defaultdict[str, list[float]] = defaultdict(list)
    for one in every:
        if one["mag"] is not None:
            by_net[one["net"]].append(one["mag"])
    yield {net: max(mags) for net, mags in by_net.items()}
    yield sorted({one["type"] for one in every} - {"earthquake"})
    yield max(features, key=lambda feature: feature["geometry"]["coordinates"][1])["id"]
    yield _counts(one["alert"] for one in every if one["alert"] is not None)


def _topology(source: Any) -> Iterator[object]:
    countries = source["objects"]["countries"]["geometries"]
    yield len(countries)
    yield _counts(country["type"] for country in countries)
    yield sorted(country["properties"]["name"] for country in countries if "id" not in country)
    yield len(source["arcs"])
    yield max(map(len, source["arcs"]))
    scale, translate = source["transform"]["scale"], source["transform"]["translate"]
    first = source["arcs"][0][0]
    yield [round(first[axis] * scale[axis] + translate[axis], 4) for axis in (0, 1)]
    yield [round(edge, 2) for edge in source["bbox"]]
    many = [country for country in countries if country["type"] == "MultiPolygon"]
    yield _greatest((country["properties"]["name"], len(country["arcs"])) for country in many)[0]
    yield sum(country["properties"]["name"].startswith("S") for country in countries)
    yield sum(len(land["arcs"]) for land in source["objects"]["land"]["geometries"])


def _emoji(source: Any) -> Iterator[object]:
    variations = [variation for emoji in source for variation in emoji.get("skin_variations", {}).values()]
    yield _counts(emoji["category"] for emoji in source)
    yield sum("skin_variations" in emoji for emoji in source)
    yield len(variations)
    yield _most(emoji["added_in"] for emoji in source)[0]
    yield sum(not emoji["has_img_facebook"] for emoji in source)
    yield _greatest((emoji["short_name"], len(emoji["short_names"])) for emoji in source)[0]
    yield sum(emoji["au"] is not None and emoji["docomo"] is None for emoji in source)
    yield max(emoji["sheet_x"] for emoji in source)
    yield sorted(emoji["name"] for emoji in source if emoji["text"] == ":)")
    yield sum(not variation["has_img_facebook"] for variation in variations)


def _licences(source: Any) -> Iterator[object]:
    yield [len(source), sum(licence["osiApproved"] for licence in source.values())]
    yield _greatest((name, len(licence["licenseText"])) for name, licence in source.items())[0]
    yield sorted(name for name, licence in source.items() if not licence.get("url"))
    yield sum(licence["name"].startswith("Creative Commons") for licence in source.values())
    yield _most(urlsplit(licence["url"]).netloc for licence in source.values() if licence.get("url"))[0]
    yield sum("AS IS" in licence["licenseText"] for licence in source.values())
    yield statistics.median(len(licence["licenseText"]) for licence in source.values())
    yield sum(name.startswith("GPL-") for name in source)
    yield next(name for name, licence in source.items() if licence["name"] == "ISC License")
    yield sum(licence["osiApproved"] and "patent" in licence["licenseText"].lower() for licence in source.values())


def _movies(source: Any) -> Iterator[object]:
    yield [movie["Title"] for movie in sorted(source, key=lambda movie: -(movie["Worldwide Gross"] or 0))[:3]]
    yield _counts(movie["MPAA Rating"] for movie in source if movie["MPAA Rating"] is not None)
    yield sum(movie["Director"] is None for movie in source)
    ratings: defaultdict[str, list[float]] = defaultdict(list)
    for movie in source:
        if movie["Director"] is not None and movie["IMDB Rating"] is not None:
            ratings[movie["Director"]].append(movie["IMDB Rating"])
    director, mean = max(
        ((of, statistics.mean(all_)) for of, all_ in ratings.items() if len(all_) >= 5), key=lambda pair: pair[1]
    )
    yield [director, round(mean, 3)]
    yield sum(re.search(r"\b2006$", movie["Release Date"]) is not None for movie in source)
    yield sum(isinstance(movie["Title"], int | float) for movie in source)
    yield max(movie["Running Time min"] for movie in source if movie["Running Time min"] is not None)
    genres = Counter(movie["Major Genre"] for movie in source if movie["Major Genre"] is not None)
    yield {
        genre: round(
            statistics.mean(
                movie["Production Budget"]
                for movie in source
                if movie["Major Genre"] == genre and movie["Production Budget"] is not None
            )
        )
        for genre, count in genres.items()
        if count > 400
    }
    yield len({movie["Distributor"] for movie in source if movie["Distributor"] is not None})
    yield sum(
        (movie["Rotten Tomatoes Rating"] or 0) > 90 and movie["IMDB Votes"] is not None and movie["IMDB Votes"] < 1000
        for movie in source
    )


def _pods(source: Any) -> Iterator[object]:
    pods = source["items"]
    containers = [container for pod in pods for container in pod["spec"]["containers"]]
    statuses = [status for pod in pods for status in pod["status"].get("containerStatuses", [])]
    yield _counts(pod["status"]["phase"] for pod in pods)
    yield _counts(pod["spec"]["nodeName"] for pod in pods)
    yield sum(status["restartCount"] for status in statuses)
    yield sum(status["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff" for status in statuses)
    yield sum("memory" not in container["resources"].get("limits", {}) for container in containers)
    yield sorted({container["image"] for container in containers})
    yield min(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])["metadata"]["name"]
    shop = [pod["metadata"] for pod in pods if pod["metadata"]["namespace"] == "shop"]
    yield _counts(of["labels"]["app.kubernetes.io/name"] for of in shop)
    yield sum({"name": "LOG_LEVEL", "value": "debug"} in container["env"] for container in containers)
    yield sum(
        any(of["type"] == "Ready" and of["status"] != "True" for of in pod["status"]["conditions"]) for pod in pods
    )


def _invoices(source: Any) -> Iterator[object]:
    every = source["data"]
    lines = [line for invoice in every for line in invoice["lines"]["data"]]
    yield _counts(invoice["status"] for invoice in every)
    totals: Counter[str] = Counter()
    owed: Counter[str] = Counter()
    products: Counter[str] = Counter()
    for invoice in every:
        if invoice["status"] == "paid":
            totals[invoice["currency"]] += invoice["total"]
        if invoice["status"] == "open":
            owed[invoice["customer"]] += invoice["amount_remaining"]
    for line in lines:
        products[line["price"]["product"]] += line["amount"]
    yield dict(totals)
    yield _greatest(owed.items(), 3)
    yield dict(products)
    yield _most(f"{datetime.fromtimestamp(invoice['created'], UTC):%Y-%m}" for invoice in every)[0]
    spans = [
        invoice["status_transitions"]["paid_at"] - invoice["created"]
        for invoice in every
        if invoice["status_transitions"]["paid_at"]
    ]
    yield round(sum(spans) / len(spans) / 3600, 2)
    yield sum(invoice["tax"] is None for invoice in every)
    yield sum(line["price"]["recurring"]["interval"] == "year" for line in lines)
    yield sum((invoice["discount"] or {}).get("coupon", {}).get("id") == "WELCOME20" for invoice in every)
    yield sum("order" in invoice["metadata"] for invoice in every)


def _streams(source: Any) -> Iterator[object]:
    result = source["data"]["result"]
    every = [(stream["stream"], int(at), line) for stream in result for at, line in stream["values"]]
    yield len(every)
    yield _counts(stream["app"] for stream, _, _ in every)
    yield sum("level=error" in line for _, _, line in every)
    yield max(int(re.search(r"duration=(\d+)ms", line)[1]) for _, _, line in every)  # type: ignore[index]
    yield _counts(stream["stream"]["cluster"] for stream in result)
    yield round((max(at for _, at, _ in every) - min(at for _, at, _ in every)) / 1e9)
    yield _counts(re.search(r"status=(\d+)", line)[1] for _, _, line in every)  # type: ignore[index]
    yield _most(stream["pod"] for stream, _, line in every if "level=error" in line)[0]
    yield source["data"]["stats"]["summary"]["totalEntriesReturned"]
    yield sorted({stream["stream"]["namespace"] for stream in result})


_LINE = re.compile(r'(\S+) - - \[([^ ]+) \+0000\] "(\w+) (\S+) HTTP/1.1" (\d+) (\d+) "-" "([^"]*)"')


def _access(source: str) -> Iterator[object]:
    every = [_LINE.fullmatch(line).groups() for line in source.splitlines()]  # type: ignore[union-attr]
    yield len(every)
    yield _counts(status for _, _, _, _, status, _, _ in every)
    yield _most(address for address, *_ in every)[0]
    yield sum(method == "POST" and page == "/login" for _, _, method, page, *_ in every)
    yield _most(at[:14] for _, at, *_ in every)[0][0]
    yield sum(int(size) for *_, size, _ in every)
    yield sorted({agent for *_, agent in every})
    yield _most(page for _, _, _, page, status, _, _ in every if status == "500")[0]
    yield sum("Googlebot" in agent and status == "404" for *_, status, _, agent in every)
    yield [every[0][1], every[-1][1]]


def _airports(source: str) -> Iterator[object]:
    rows = list(csv.DictReader(io.StringIO(source)))
    yield len(rows)
    yield _most((row["state"] for row in rows), 3)
    yield next(row["city"] for row in rows if row["iata"] == "SEA")
    yield max(rows, key=lambda row: float(row["latitude"]))["iata"]
    yield _counts(row["country"] for row in rows if row["country"] != "USA")
    yield sum("International" in row["name"] for row in rows)
    yield round(statistics.mean(float(row["latitude"]) for row in rows if row["state"] == "TX"), 3)
    yield len({row["city"] for row in rows if row["state"] == "CA"})
    yield max(rows, key=lambda row: float(row["longitude"]))["name"]
    yield _most(row["name"] for row in rows)[0]


_BY_NAME: dict[str, Callable[[Any], Iterator[object]]] = {
    "pulls": _pulls,
    "issues": _issues,
    "search": _search,
    "webhooks": _webhooks,
    "openapi": _openapi,
    "ec2": _ec2,
    "caniuse": _caniuse,
    "packages": _packages,
    "compat": _compat,
    "countries": _countries,
    "earthquakes": _earthquakes,
    "topology": _topology,
    "emoji": _emoji,
    "licences": _licences,
    "movies": _movies,
    "pods": _pods,
    "invoices": _invoices,
    "streams": _streams,
    "access": _access,
    "airports": _airports,
}
