"""The gateway: the pact in the path of real traffic, over the OpenAI and Anthropic APIs.

May import everything but `cli`.
"""
