"""What the README shows runs as it stands there."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"


def example(section: str) -> str:
    """The one Python example of a section."""
    text = README.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return str(code)


async def test_the_converse_example_says_what_was_heard(served: Any) -> None:
    code = example("Converse").replace("localhost:50051", f"127.0.0.1:{served.app.port}")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    heard, _, rest = out.decode().removeprefix("heard: ").partition(" | not heard: ")
    assert heard.startswith("The kettle")
    assert (heard + rest).startswith("The kettle is on, and")
    await served.idle()
