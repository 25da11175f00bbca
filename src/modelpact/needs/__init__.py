"""The needs: what work requires, read from text and from every dialect's JSON.

May import `catalog` and `vocabulary`.
"""

from modelpact.needs.dialects import read_abp, read_openwop, read_stud
from modelpact.needs.need import Level, Need, Needs, need

__all__ = ["Level", "Need", "Needs", "need", "read_abp", "read_openwop", "read_stud"]
