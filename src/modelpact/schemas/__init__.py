"""JSON Schemas for structured output: check them against vendors' rules, and rewrite them.

Pure: nothing here reads files except its own profiles.
"""
