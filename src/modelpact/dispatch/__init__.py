"""Dispatch: plans are carried out here. May import everything but `cli`."""

from modelpact.dispatch.emulated_call import EmulatedResult, complete, stream

__all__ = ["EmulatedResult", "complete", "stream"]
