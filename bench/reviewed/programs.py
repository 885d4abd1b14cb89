"""All faulty programs, and all right ones."""

from __future__ import annotations

from bench.reviewed import faults_groups, faults_rings, faults_tiles
from bench.reviewed.kinds import Fault
from bench.reviewed.right import RIGHT

FAULTS: tuple[Fault, ...] = (*faults_rings.FAULTS, *faults_tiles.FAULTS, *faults_groups.FAULTS)

__all__ = ["FAULTS", "RIGHT"]
