"""The agents' gateway: narrow operations for models, over HTTP, MCP and function calling, with identity kept outside.

    from joingate.gateway.adapters import HttpGate, gated

    gate = HttpGate("http://127.0.0.1:8090", token)
    issue_refund = gated(issue_refund, gate, action="refund", bind={"refund_request": "TCK-17"})

A model that times out, paraphrases, plans again or invents a success meets the status of its first asking.
"""
