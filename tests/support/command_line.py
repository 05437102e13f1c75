"""The command `plugrad`, run inside of the tests' process."""

import json
import re

from typer.testing import CliRunner

from plugrad.cli import app


def invoke(*arguments, status=0):
    """Return the result of `plugrad ARGUMENTS`, which must end with the given status."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == status, result.output
    return result


def rows(*arguments, status=0):
    """Return the rows that a command prints as JSON."""
    return json.loads(invoke(*arguments, "--json", status=status).stdout)


def plain(result):
    """Return what was printed without the frame and the line breaks of an error."""
    return " ".join(re.sub(r"[\u2500-\u257f]", " ", result.output).split())
