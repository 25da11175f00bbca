"""Dispatch: calling models. It holds the model caller, the OpenWOP gate and emulated calls."""

from modelpact.dispatch.emulated_call import EmulatedResult, complete, stream

__all__ = ["EmulatedResult", "complete", "stream"]
