"""Memory: how much a fresh process grows by importing, and by touching every model."""

from rows import Row, emit
from timing import answers, median

RESIDENT = """
import re
def resident():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmRSS:\\s+(\\d+)", status.read())[1]) * 1024
before = resident()
"""
OURS = "import modelpact\n"
EVERY = """
catalog = modelpact.default_catalog()
every = [(p, m) for p in catalog.models.providers for m in catalog.models.names(p)]
for provider, model in every:
    one = modelpact.resolve(provider, model)
"""
CLAIMS = """
    for name in ("tool-calling", "structured-output", "streaming", "image-input", "reasoning",
                 "prompt-caching", "context-window"):
        one.claim(name)
"""
SEARCH = "modelpact.find_models('tools,structured-output,context>=200k')\n"
END = "print(resident() - before)\n"
COUNT = 7


def main() -> None:
    def grown(code: str) -> float:
        return median(answers(RESIDENT + code + END, COUNT))

    litellm = grown("import litellm\n")
    peer = "after import litellm"
    emit(
        Row("every model resolved", grown(OURS + EVERY), litellm, peer, "B", "at least", 3),
        Row("… and 7 claims of each read", grown(OURS + EVERY + CLAIMS), litellm, peer, "B"),
        Row("one search", grown(OURS + SEARCH), litellm, peer, "B"),
        Row("after `import modelpact`", grown(OURS), litellm, peer, "B"),
        note=f"Growth of VmRSS over a bare interpreter; medians of {COUNT} fresh processes.",
    )


if __name__ == "__main__":
    main()
