"""Conversations: messages, requests and responses, independent of any provider's API.

The packages `openai_chat`, `openai_responses` and `anthropic` read and write the bodies of one API
each; `codecs` is the table of them. Pure: nothing here does I/O.
"""
