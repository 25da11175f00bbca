"""Emulation: capabilities that a model lacks, made up for by changes to request and response.

`strategies` has the engine of the abp specification; `emulator` has the stronger emulations. Both
are pure: they never call a model. A response that fails its check becomes a `RepairRequest`, and
the caller sends it.
"""
