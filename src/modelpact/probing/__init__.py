"""Probing: find out what a model can do, with a few cheap calls and checks of their answers."""

from modelpact.probing.calls import Budget
from modelpact.probing.plan import ProbePlan, plan_probe
from modelpact.probing.run import Probe, ProbeReport, ProbeResult, run_probe

__all__ = ["Budget", "Probe", "ProbePlan", "ProbeReport", "ProbeResult", "plan_probe", "run_probe"]
