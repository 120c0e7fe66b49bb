import io

import pytest

from talkwire.cli import EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_USAGE, exit_status, parser
from talkwire.cli_options import speech_options
from talkwire.errors import InvalidArgument, NotFound, Unavailable
from talkwire.render import Progress, table


def test_only_what_was_given_is_asked_for() -> None:
    assert speech_options(parser().parse_args(["say", "hi"])) == {}
    arguments = parser().parse_args(["say", "hi", "--seed", "0", "--top-p", "0.5", "--geometry", "exact"])
    assert speech_options(arguments) == {"seed": 0, "top_p": 0.5, "geometry": "exact"}


def test_loads_are_a_list() -> None:
    assert parser().parse_args(["bench", "--streams", "1,2,8"]).streams == [1, 2, 8]


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["sing"],
        ["bench", "--streams", "1,0"],
        ["bench", "--streams", "two"],
        ["say", "--parallel", "-1"],
        ["say", "hi", "--words-per-s", "0"],
        ["say", "hi", "--words-per-s", "nan"],
        ["info", "--target", "localhost"],
    ],
)
def test_wrong_usage_is_refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        parser().parse_args(argv)
    assert refusal.value.code == EXIT_USAGE
    assert capsys.readouterr().err


def test_errors_have_an_exit_status() -> None:
    statuses = [exit_status(error) for error in (InvalidArgument(""), Unavailable(""), NotFound(""))]
    assert statuses == [EXIT_USAGE, EXIT_UNAVAILABLE, EXIT_FAILED]


def test_a_table_lines_up() -> None:
    assert table(("file", "s"), [("a.wav", "10.5"), ("longer.wav", "2")]) == (
        "file           s\na.wav       10.5\nlonger.wav     2"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_fills_on_a_terminal() -> None:
    out = Terminal()
    with Progress(2, "work", out) as progress:
        progress.advance()
        progress.advance()
    steps = out.getvalue().split("\r")
    assert [step.count("█") for step in steps[1:]] == [0, 15, 30]
    assert steps[-1].endswith("2/2\n")


def test_a_bar_is_silent_in_a_log() -> None:
    out = io.StringIO()
    with Progress(1, "work", out) as progress:
        progress.advance()
    assert out.getvalue() == ""
