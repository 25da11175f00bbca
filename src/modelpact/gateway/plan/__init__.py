"""Planning: a request, the configuration and the catalog in, a plan out.

Pure: nothing here records, sends, or opens a connection; `pyproject.toml` enforces that.
"""
