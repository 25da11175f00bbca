"""The vocabulary: capabilities, the names that dialects have for them, errors and redaction.

Pure values and tables.
"""
