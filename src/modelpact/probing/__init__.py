"""Probing: a few cheap calls find out what a model really does; their answers are checked.

May import everything but `cli`.
"""

from modelpact.probing.calls import Budget
from modelpact.probing.plan import ProbePlan, plan_probe
from modelpact.probing.report import ProbeReport, ProbeResult
from modelpact.probing.run import Probe, run_probe

__all__ = ["Budget", "Probe", "ProbePlan", "ProbeReport", "ProbeResult", "plan_probe", "run_probe"]
