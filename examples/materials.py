"""A materials-science workflow: relaxed crystal structures out of one tool, ground states out of another.

`structures` makes as many as wanted, the same ones each time: compositions, lattices, every site with its position, charge and
magnetic moment, energies, band gaps. Neighbours in the periodic table or in energy share nothing but their keys, so that the
text is as dense in tokens as such data is.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

ELEMENTS = "Li Na K Mg Ca Sr Ba Ti V Cr Mn Fe Co Ni Cu Zn Al Ga Si Ge P S Se O N F Cl Br".split()  # noqa: SIM905
SYSTEMS = "triclinic monoclinic orthorhombic tetragonal trigonal hexagonal cubic".split()  # noqa: SIM905
LAST_GROUPS = np.array([2, 15, 74, 142, 167, 194, 230])
"""The last space group of each crystal system."""


def structures(count: int, seed: int = 20_822_181) -> dict[str, Any]:
    """Return what a screening run of so many structures returns: nested records with some scalars beside them."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 9, count)
    ends = np.cumsum(sizes).tolist()
    sites = ends[-1] if ends else 0
    species = [ELEMENTS[at] for at in random.integers(0, len(ELEMENTS), sites).tolist()]
    positions = random.random((sites, 3)).round(6).tolist()
    charges = (random.random(sites) * 6 - 3).round(4).tolist()
    moments = (random.random(sites) ** 4 * 5).round(3).tolist()
    edges = (2.5 + random.random((count, 3)) * 10).round(5)
    angles = (60 + random.random((count, 3)) * 60).round(3).tolist()
    volumes = (edges.prod(axis=1) * 0.93).round(4).tolist()
    edges = edges.tolist()
    groups = random.integers(1, 231, count)
    systems = np.searchsorted(LAST_GROUPS, groups).tolist()
    groups = groups.tolist()
    gaps = np.maximum(0, random.random(count) * 7 - 2).round(4).tolist()
    energies = (-8 + random.random(count) * 6).round(6).tolist()
    above = (random.random(count) ** 3 * 0.6).round(5).tolist()
    moduli = [None if known < 0.3 else round(known * 400, 2) for known in random.random(count).tolist()]
    hours = (random.random(count) * 9).round(2).tolist()
    ids = (random.permutation(count * 17)[:count] + 1).tolist()
    materials = []
    begin = 0
    for n, end in enumerate(ends):
        kinds = species[begin:end]
        material = {
            "material_id": f"mp-{ids[n]}",
            "formula": formula(kinds),
            "elements": sorted(set(kinds)),
            "spacegroup": {"number": groups[n], "crystal_system": SYSTEMS[systems[n]]},
            "lattice": {
                **dict(zip(("a", "b", "c"), edges[n], strict=True)),
                **dict(zip(("alpha", "beta", "gamma"), angles[n], strict=True)),
                "volume": volumes[n],
            },
            "band_gap_ev": gaps[n],
            "energy_per_atom_ev": energies[n],
            "energy_above_hull_ev": above[n],
            "bulk_modulus_gpa": moduli[n],
            "sites": [
                {"species": species[at], "xyz": positions[at], "charge": charges[at], "magmom": moments[at]}
                for at in range(begin, end)
            ],
            "calculation": {"functional": "PBE+U", "cutoff_ev": 520, "converged": hours[n] < 8.9, "hours": hours[n]},
        }
        materials.append(material)
        begin = end
    return {"workflow": "relax-and-screen", "version": "2.4.1", "next_page": None, "materials": materials}


def formula(kinds: list[str]) -> str:
    """Return the chemical formula of a cell's atoms: `AlCoO4`."""
    counts = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return "".join(kind if number == 1 else f"{kind}{number}" for kind, number in counts.items())


def ground_states(entries: list[dict[str, Any]], top: int = 3) -> dict[str, Any]:
    """The second tool: return how many entries and chemical systems there are, and the systems with the most entries.

    It needs every entry (`material_id`, `elements`, `energy_per_atom_ev`); the lowest of a system is its ground state.
    """
    systems: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        systems["-".join(entry["elements"])].append(entry)
    most = sorted(systems, key=lambda name: (-len(systems[name]), name))[:top]
    lowest = {name: min(systems[name], key=lambda entry: entry["energy_per_atom_ev"]) for name in most}
    return {
        "entries": len(entries),
        "systems": len(systems),
        "ground_states": [
            {
                "system": name,
                "entries": len(systems[name]),
                "material_id": lowest[name]["material_id"],
                "energy_per_atom_ev": lowest[name]["energy_per_atom_ev"],
            }
            for name in most
        ],
    }
