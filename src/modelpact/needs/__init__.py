"""Needs: what work requires of a model, read from text, from dialects and from requests."""

from modelpact.needs.dialects import read_abp, read_openwop, read_stud
from modelpact.needs.need import Level, Need, Needs, need

__all__ = ["Level", "Need", "Needs", "need", "read_abp", "read_openwop", "read_stud"]
