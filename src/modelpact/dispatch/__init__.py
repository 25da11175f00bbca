"""Dispatch: plans are carried out here. May import everything but `cli`."""

from modelpact.dispatch.emulated import Answer, complete, stream

__all__ = ["Answer", "complete", "stream"]
