"""The table of where the values come from, in LaTeX."""

from collections.abc import Sequence
from itertools import groupby

from thinwire.paper.latex import breakable, escaped
from thinwire.paper.origins import Origin, Run
from thinwire.paper.values import Collected

_DIGITS = 12  # of a digest
_ORIGINS = r"""{\footnotesize
\begin{longtable}{%
  >{\raggedright\arraybackslash}p{0.27\linewidth}
  >{\raggedright\arraybackslash}p{0.38\linewidth}
  >{\raggedright\arraybackslash}p{0.29\linewidth}}
\toprule
\textbf{file and lines} & \textbf{values} & \textbf{runs} \\
\midrule \endhead"""


def origins(collected: Collected, names: Sequence[str]) -> str:
    """The table of origins: file and lines, the values from there, and the runs behind them with their links.

    Args:
        collected: all that the paper can name.
        names: the values that the text names.
    """
    values_of: dict[str, list[str]] = {}
    for name in names:
        values_of.setdefault(collected.values[name].origin, []).append(name)
    rows = [_row(origin, values_of[key]) for key, origin in collected.origins.items() if key in values_of]
    return "\n".join((_ORIGINS, *rows, r"\bottomrule", r"\end{longtable}}", ""))


def _row(origin: Origin, names: Sequence[str]) -> str:
    digest = rf" (\texttt{{{origin.sha256[:_DIGITS]}}})" if origin.sha256 else ""
    lines = f", {escaped(origin.rows)}" if origin.rows else ""
    runs = [_cell(folder, list(runs)) for folder, runs in groupby(origin.runs, _folder_of_cell)]
    behind = r"\newline ".join((*runs, escaped(origin.note)) if origin.note else runs)
    where = rf"\hypertarget{{{origin.key}}}{{{breakable(origin.file)}}}{lines}{digest}"
    return rf"{where} & {', '.join(map(breakable, names))} & {behind} \\"


def _folder_of_cell(run: Run) -> str:
    return run.folder.rpartition("/")[0]


def _cell(folder: str, runs: Sequence[Run]) -> str:
    seeds = [
        rf"\href{{../index.html\#{run.anchor}}}{{{escaped(run.folder.rpartition('/')[2])}}}" for run in runs
    ]
    return f"{breakable(folder)}/ {' '.join(seeds)}"
