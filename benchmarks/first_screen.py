"""How long a browser takes to show the page of thousands of runs.

    python benchmarks/first_screen.py [--record]

Makes the page of about 1,000 and of about 10,000 runs, whose records are copies of archived ones as in
`scale.py`. A headless Chromium opens each page five times. Prints the median seconds until something is
painted, and until the claims and the first table are there (targets: 1.5 and 4). Exits with 0 only if both
are met.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import pipeline
import record
import scale

from tests.page.chromium import Chromium, why_not
from thinwire.audit.archive import unpacked
from thinwire.plugins import ROOT
from thinwire.report.report_files import SUMMARY

# Seconds, by how many runs the page has.
TARGETS = {1_000: 1.5, 10_000: 4.0}
OPENED = 5
THERE = "document.querySelector('#claims .claim') && document.querySelector('#summary tbody tr') !== null"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1e3"


def main(arguments: argparse.Namespace) -> int:
    """Measure, and report whether the targets are met."""
    if (reason := why_not()) is not None:
        sys.exit(reason)
    met = []
    with tempfile.TemporaryDirectory() as folder, unpacked(ROOT / "results" / "reference") as archived:
        project = pipeline.copy(Path(folder))
        for runs, target in TARGETS.items():
            scale.write(project, archived, runs)
            for command in (("collect", scale.SUITE), ("report", scale.SUITE), ("claims",), ("page",)):
                pipeline.cost(project, [*pipeline.PYTHON, "thinwire", *command])
            page = project / "results" / "index.html"
            rows = len((project / "results" / SUMMARY).read_text().splitlines()) - 1
            painted, there = shown(page, Path(folder))
            print(f"{rows} runs, {page.stat().st_size / 1e6:.1f} MB: painted after {painted:.2f} s")
            print(f"{rows} runs: first screen after {there:.2f} s (target <= {target})")
            met.append(there <= target)
    print(f"{sum(met)} of {len(met)} targets are met")
    return int(not all(met))


def shown(page: Path, folder: Path) -> tuple[float, float]:
    """The median seconds until a page is painted, and until its first screen is there."""
    seconds = []
    for _ in range(OPENED):
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as profile:
            browser = Chromium(Path(profile))
            browser.size(1280)
            browser.open(page.as_uri())
            browser.wait(THERE)
            there = browser.run("performance.now() / 1e3")
            seconds.append((browser.run(PAINTED), there))
            browser.close()
    painted, there = zip(*seconds)
    return statistics.median(painted), statistics.median(there)


if __name__ == "__main__":
    sys.exit(record.run(main))
