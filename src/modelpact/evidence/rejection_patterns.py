"""Patterns of the messages with which servers reject requests, each with an example.

A pattern names the capability itself (`capability`), or has a group: `field` is a request field to
look up in `FIELDS`, `limit` is a number of tokens, `values` lists the values that are accepted.
"""

import re
from typing import Final

import msgspec

FIELDS: Final[dict[str, str]] = {
    "temperature": "temperature",
    "top_p": "top-p",
    "top_k": "top-k",
    "stop": "stop-sequences",
    "stop_sequences": "stop-sequences",
    "logprobs": "logprobs",
    "top_logprobs": "logprobs",
    "seed": "seed",
    "n": "n",
    "frequency_penalty": "frequency-penalty",
    "presence_penalty": "presence-penalty",
    "logit_bias": "logit-bias",
    "tools": "tool-calling",
    "functions": "tool-calling",
    "tool_choice": "tool-choice",
    "parallel_tool_calls": "parallel-tool-calls",
    "response_format": "output",
    "output_format": "structured-output",
    "output_config.format": "structured-output",
    "output_config.effort": "reasoning-effort",
    "effort": "reasoning-effort",
    "reasoning_effort": "reasoning-effort",
    "reasoning": "reasoning-effort",
    "thinking": "reasoning",
    "thinking.budget_tokens": "thinking-budget",
    "stream": "streaming",
    "system": "system-messages",
    "prediction": "predicted-outputs",
    "cache_control": "prompt-caching",
    "include_reasoning": "include-reasoning",
    "web_search_options": "web-search",
    "max_completion_tokens": "token-limit-param",
}
"""Request fields, and the capability that is missing if a server rejects one.

`output` stands for `structured-output` or `json-object`, whichever the request asks for.
"""

_FIELD: Final = r"[\"'`\[]*(?P<field>[A-Za-z][A-Za-z0-9_.]{0,60}?(?:\[\d+\]\.role)?)[\"'`\]]*"
_NUMBER: Final = r"(?P<limit>\d[\d,_]{0,14})"
_NOT: Final = r"(?:does not|doesn['’]t|do not|don['’]t|cannot|can['’]t)"


class RejectionPattern(msgspec.Struct, frozen=True):
    """One wording with which servers reject requests."""

    pattern: str
    example: str
    teaches: str
    """What the example teaches: a capability that is missing, or `capability=value`."""
    capability: str = ""
    value: str = ""
    statuses: tuple[int, ...] = (400, 422)

    def search(self, text: str) -> re.Match[str] | None:
        """Search a message for the pattern."""
        return re.search(self.pattern, text, re.IGNORECASE)  # re caches compiled patterns


REJECTION_PATTERNS: Final[tuple[RejectionPattern, ...]] = (
    # Limits stated in the message.
    RejectionPattern(
        rf"maximum context length (?:is|of) {_NUMBER}",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in "
        "9001 tokens. Please reduce the length of the messages.",
        "context-window=8192",
        "context-window",
        statuses=(400, 413, 422),
    ),
    RejectionPattern(
        rf"too large for model with {_NUMBER} maximum context length",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
        "context length",
        "context-window=32768",
        "context-window",
    ),
    RejectionPattern(
        rf"prompt is too long: \d+ tokens > {_NUMBER} maximum",
        "prompt is too long: 205371 tokens > 200000 maximum",
        "context-window=200000",
        "context-window",
        statuses=(400, 413),
    ),
    RejectionPattern(
        rf"exceed context limit: \d+ \+ \d+ > {_NUMBER}",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease "
        "input length or `max_tokens` and try again",
        "context-window=200000",
        "context-window",
    ),
    RejectionPattern(
        rf"exceeds the available context size \({_NUMBER} tokens\)",
        "request (8300 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "context-window=4096",
        "context-window",
    ),
    RejectionPattern(
        rf"loaded with context length of only {_NUMBER}",
        "Trying to keep the first 4546 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens, which is not enough.",
        "context-window=4096",
        "context-window",
    ),
    RejectionPattern(
        rf"must be less than max_seq_len \({_NUMBER}\)",
        "length of prompt_tokens (163280) must be less than max_seq_len (32768).",
        "context-window=32768",
        "context-window",
    ),
    RejectionPattern(
        rf"`inputs` tokens \+ `max_new_tokens` must be <= {_NUMBER}",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 "
        "`inputs` tokens and 100 `max_new_tokens`",
        "context-window=4097",
        "context-window",
    ),
    RejectionPattern(
        rf"maximum prompt length is {_NUMBER}",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "max-input=131072",
        "max-input",
    ),
    RejectionPattern(
        rf"exceeds the maximum number of tokens allowed \({_NUMBER}\)",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "max-input=1048575",
        "max-input",
    ),
    RejectionPattern(
        rf"input tokens exceed the configured limit of {_NUMBER}",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
        "300000 tokens. Please reduce the length of the messages.",
        "max-input=272000",
        "max-input",
    ),
    RejectionPattern(
        rf"supports at most {_NUMBER} completion tokens",
        "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, "
        "whereas you provided 20000.",
        "max-output=16384",
        "max-output",
    ),
    RejectionPattern(
        rf"> {_NUMBER}, which is the maximum allowed number of output tokens",
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for "
        "claude-3-5-haiku-20241022",
        "max-output=8192",
        "max-output",
    ),
    # The parameter that limits output tokens.
    RejectionPattern(
        r"max_tokens['\"`]? is not supported .{0,40}use ['\"`]?max_completion_tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        "token-limit-param=max-completion-tokens",
        "token-limit-param",
        "max-completion-tokens",
    ),
    # Capabilities by name.
    RejectionPattern(
        rf"(?:{_NOT} (?:currently )?support|no endpoints found that support) "
        r"(?:the use of )?(?:tools?\b|function[ -]call|tool[ -](?:use|call)(?! in streaming))",
        "registry.ollama.ai/library/deepseek-r1:latest does not support tools",
        "tool-calling",
        "tool-calling",
        statuses=(400, 404, 422),
    ),
    RejectionPattern(
        r"tools? (?:use |calling |choice )?is not supported (?:in|with|by|for) this model",
        "tools is not supported in this model.",
        "tool-calling",
        "tool-calling",
    ),
    RejectionPattern(
        r"tool choice requires --enable-auto-tool-choice",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "tool-calling",
        "tool-calling",
    ),
    RejectionPattern(
        rf"(?:{_NOT} support|no endpoints found that support) (?:the )?(?:images?\b|vision)",
        "No endpoints found that support image input",
        "image-input",
        "image-input",
        statuses=(400, 404, 415, 422),
    ),
    RejectionPattern(
        r"image_url is only supported by certain models|unknown variant `image_url`"
        r"|at most 0 image\(s\) may be provided|is not a multimodal model"
        r"|missing data required for image input",
        "Invalid content type. image_url is only supported by certain models.",
        "image-input",
        "image-input",
    ),
    RejectionPattern(
        rf"{_NOT} support (?:the )?(?:extended )?thinking|thinking is not supported",
        '"llama3.1:8b" does not support thinking',
        "reasoning",
        "reasoning",
    ),
    RejectionPattern(
        rf"{_NOT} support (?:the )?(?:['\"`]?reasoning_)?effort",
        "This model does not support the effort parameter.",
        "reasoning-effort",
        "reasoning-effort",
    ),
    RejectionPattern(
        rf"{_NOT} support system (?:messages?|prompts?|instructions?|role)"
        r"|system role (?:is )?not supported|role['\"`]? does not support ['\"`]?system"
        r"|developer instruction is not enabled",
        "This model doesn't support system messages. Try again without a system message or use a "
        "model that supports system messages.",
        "system-messages",
        "system-messages",
    ),
    RejectionPattern(
        rf"{_NOT} support assistant message prefill",
        "This model does not support assistant message prefill. The conversation must end with a "
        "user message.",
        "assistant-prefill",
        "assistant-prefill",
    ),
    RejectionPattern(
        rf"{_NOT} support streaming|streaming is not supported|"
        r"['\"`]stream['\"`] does not support true",
        "Unsupported value: 'stream' does not support true with this model. Only the default "
        "(false) value is supported.",
        "streaming",
        "streaming",
    ),
    RejectionPattern(
        r"response_format['\"`]? of type ['\"`]?json_schema['\"`]? is not supported"
        rf"|{_NOT} support (?:output formats?|structured outputs?|json_?schema)",
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this "
        "model.",
        "structured-output",
        "structured-output",
    ),
    RejectionPattern(
        r"response_format['\"`]? of type ['\"`]?json_object['\"`]? is not supported"
        r"|response_format\.type['\"`]? must be ['\"`]json_schema"
        rf"|{_NOT} support json mode|json mode is not enabled",
        "'response_format.type' must be 'json_schema' or 'text'",
        "json-object",
        "json-object",
    ),
    RejectionPattern(
        r"this response_format type is unavailable",
        "This response_format type is unavailable now",
        "structured-output",
        "output",
    ),
    RejectionPattern(
        r"penalty is not enabled for",
        "Penalty is not enabled for models/gemini-2.5-flash",
        "frequency-penalty",
        "frequency-penalty",
    ),
    RejectionPattern(
        r"logprobs is not enabled for",
        "Logprobs is not enabled for models/gemini-2.5-flash",
        "logprobs",
        "logprobs",
    ),
    # Values: the accepted ones, or that there is only the default.
    RejectionPattern(
        r"reasoning_effort['\"`]? does not support .{1,40}"
        r"supported values are: (?P<values>.{1,99})",
        "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. "
        "Supported values are: 'low', 'medium', and 'high'.",
        "reasoning-effort=low,medium,high",
        "reasoning-effort",
    ),
    RejectionPattern(
        rf"unsupported value: {_FIELD} does not support .{{1,60}}only the default",
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default "
        "(1) value is supported.",
        "temperature",
    ),
    RejectionPattern(
        rf"invalid {_FIELD}: only [\d.]+ is allowed for this model",
        "invalid temperature: only 1 is allowed for this model",
        "temperature",
    ),
    # Request fields by name.
    RejectionPattern(
        rf"unsupported parameter: {_FIELD}(?= is not supported|[.\s]|$)",
        "Unsupported parameter: 'logprobs' is not supported with this model.",
        "logprobs",
    ),
    RejectionPattern(
        rf"unrecognized request arguments? supplied: {_FIELD}(?=[,.\s]|$)",
        "Unrecognized request argument supplied: reasoning_effort",
        "reasoning-effort",
    ),
    RejectionPattern(
        rf"(?:unknown|unsupported) (?:parameter|field|argument)s?:? {_FIELD}(?=[,.\s]|$)",
        "Unknown parameter: 'seed'.",
        "seed",
    ),
    RejectionPattern(
        rf"argument not supported on this model: {_FIELD}(?=[,.\s]|$)",
        "Argument not supported on this model: presencePenalty",
        "presence-penalty",
    ),
    RejectionPattern(
        rf"{_NOT} support (?:the )?(?:parameters?|arguments?|fields?):? {_FIELD}(?=[,.\s]|$)",
        "Model grok-4 does not support parameter stop.",
        "stop-sequences",
    ),
    RejectionPattern(
        rf"{_NOT} support the {_FIELD} (?:field|parameter|argument)",
        "This model doesn't support the stopSequences field. Remove stopSequences and try again.",
        "stop-sequences",
    ),
    RejectionPattern(
        rf"unknown name {_FIELD}: cannot find field",
        'Invalid JSON payload received. Unknown name "seed": Cannot find field.',
        "seed",
    ),
    RejectionPattern(
        rf"extraneous key {_FIELD} is not permitted",
        "Malformed input request: extraneous key [top_k] is not permitted, please reformat your "
        "input and try again.",
        "top-k",
    ),
    RejectionPattern(
        rf"extra inputs are not permitted, field: {_FIELD}(?=[,.\s]|$)",
        "Extra inputs are not permitted, field: 'top_k', value: 5",
        "top-k",
    ),
    RejectionPattern(
        rf"(?:^|[\s:;]){_FIELD}:?\s+extra inputs are not permitted",
        "tool_choice: Extra inputs are not permitted",
        "tool-choice",
    ),
    RejectionPattern(
        r"\"loc\":\s?\[\"body\",\s?\"(?P<field>[a-z_]{1,60})\"\],\s?\"msg\":\s?\"extra inputs",
        '{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not '
        'permitted","input":7}]}',
        "seed",
    ),
    RejectionPattern(
        rf"property {_FIELD} is (?:unsupported|not supported)",
        "property 'logit_bias' is unsupported",
        "logit-bias",
    ),
    RejectionPattern(
        r"[\"'`](?P<field>[a-z][a-z0-9_.]{0,60})[\"'`] is not supported"
        r"(?: (?:with|by|in|for|on) (?:this|the) model|\.?$)",
        "`frequency_penalty` is not supported with this model",
        "frequency-penalty",
    ),
)

UNINFORMATIVE: Final = re.compile(
    r"rate.?limit|too many requests|tokens per (?:min|day)|requests per (?:min|day)|quota|billing"
    r"|credit|insufficient|api key|authenticat|authoriz|permission|organization must be verified"
    r"|content.?(?:filter|polic|management)|moderation|safety|flagged|overloaded|try again later"
    r"|violat|usage polic|\borgani[sz]ation\b|\baccounts?\b(?!/)|\bplans?\b|\btiers?\b"
    r"|\b(?:your|this|access|virtual) key\b|subscription"
    r"|nothing was sent|model_not_found|model .{0,80}(?:not found|does not exist)",
    re.IGNORECASE,
)
"""Words of failures that say nothing about what the model can do."""

CONDITIONAL: Final = re.compile(
    r"cannot both|at the same time"
    r"|only (?:allowed|be (?:set|specified|used)) (?:when|while|if|with)"
    r"|may only be|\bwhen\b|\bwhile\b|in streaming|together|alongside|along with|combin(?:ed|ation)"
    r"|\bwith (?:the )?['\"`]?(?:stream|tools?\b|function|thinking|reasoning|images?\b|json|struct)"
    r"|unless |invalid schema|must be (?:unset|greater|set)",
    re.IGNORECASE,
)
"""Words of rejections that hold only in a combination, or that blame the request."""

QUOTED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?<!\"msg\":)(?<!\"msg\": )(?:"
    r"\"[^\"\s]{0,200}\s[^\"]*(?:\"|$)|'[^'\s]{0,200}\s[^']*(?:'(?![A-Za-z])|$)"
    r"|`[^`\s]{0,200}\s[^`]*(?:`|$)|“[^”]*(?:”|$)|«[^»]*(?:»|$))"
)
"""Quotations of more than one word, also truncated ones: not the server's own words."""

_MODEL: Final = r"(?=[\w.:/-]{0,100}\d)(?=[\w.:/]{1,100}[-:/])[A-Za-z0-9][\w.:/-]{2,100}"
NAMED_MODEL: Final = re.compile(
    rf"\bmodels?(?: named)?[ :]\s?['\"`]?(?P<named>{_MODEL})"
    rf"|^['\"`]?(?P<first>{_MODEL})['\"`]? (?:is|does|do|cannot|can)",
    re.IGNORECASE,
)
"""A model name in a message: it has a digit, and a dash, colon or slash."""
