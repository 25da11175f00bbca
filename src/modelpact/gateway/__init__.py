"""The gateway: capability negotiation in the path of real traffic.

It speaks the APIs of OpenAI and Anthropic. `service.Gateway.serve` is the path of a request, and
`server.serve_gateway` listens.
"""
